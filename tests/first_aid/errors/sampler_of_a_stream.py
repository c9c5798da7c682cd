# run by: ranks
# says: DataLoader with IterableDataset: expected unspecified sampler option
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset


class Stream(IterableDataset):
    def __len__(self):
        return 8

    def __iter__(self):
        yield from range(8)


dist.init_process_group("gloo")
data = Stream()
DataLoader(data, sampler=DistributedSampler(data))
