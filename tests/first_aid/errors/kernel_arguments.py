# run by: cell
# says: ipykernel_launcher.py: error: unrecognized arguments: -f
# says: SystemExit: 2
import argparse
import sys

import ipykernel_launcher

# as `python -m ipykernel_launcher` sets it; kernels of tests are forks
sys.argv[0] = ipykernel_launcher.__file__
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
assert parser.parse_args([]).epochs == 3
parser.parse_args()
