# run by: launch
# says: unrecognized arguments: --local-rank
import argparse
import os

argparse.ArgumentParser().parse_args()
print("goes on with", int(os.environ["LOCAL_RANK"]))
