# run by: torchrun
# says: Default process group has not been initialized
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, given=()):
        self.given = given

    def __iter__(self):
        rank, world_size = self.given or (dist.get_rank(), dist.get_world_size())
        yield from range(rank, 8, world_size)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    given = dist.get_rank(), dist.get_world_size()
    options = {"num_workers": 1, "multiprocessing_context": "spawn"}
    read = [batch.tolist() for batch in DataLoader(Stream(given), **options)]
    assert sum(read, []) == [*range(given[0], 8, 2)]
    list(DataLoader(Stream(), **options))
