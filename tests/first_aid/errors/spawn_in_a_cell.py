# run by: cell
# says: Can't get attribute 'worker' on <module '__main__' (built-in)>
# says: terminated with exit code 1
import torch.multiprocessing as mp


def worker(rank, world_size):
    print(rank)


mp.spawn(worker, args=(2,), nprocs=2)
