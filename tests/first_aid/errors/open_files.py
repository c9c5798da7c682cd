# run by: python
# says: Too many open files
# says: received 0 items of ancdata
import resource
import traceback

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader


def put(queue, ended):
    for number in range(100):
        queue.put(torch.full((3,), float(number)))
    ended.wait()


def take():
    context = mp.get_context("fork")
    queue, ended = context.Queue(), context.Event()
    process = context.Process(target=put, args=(queue, ended))
    process.start()
    limit_files()
    try:
        kept.extend(queue.get() for _ in range(100))
    finally:
        ended.set()


def load():
    loader = DataLoader(torch.ones(100), multiprocessing_context="fork", num_workers=1)
    limit_files()
    kept.extend(loader)


def limit_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))


before = resource.getrlimit(resource.RLIMIT_NOFILE)
for keep in (load, take):
    kept = []
    try:
        keep()
    except Exception:
        traceback.print_exc()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
