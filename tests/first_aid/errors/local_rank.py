# run by: launch
# says: unrecognized arguments: --local-rank
import argparse
import os

argparse.ArgumentParser().parse_args()
print(f"goes on with {os.environ['LOCAL_RANK']}")
