# run by: file
# says: terminated with signal SIGABRT
import os

import torch.multiprocessing as mp


def worker(rank):
    os.abort()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=1)
