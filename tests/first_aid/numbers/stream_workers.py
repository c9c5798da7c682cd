# samples come several times: an `IterableDataset` with `num_workers` > 1
# ruff: noqa: F821  names are those of the test's PRELUDE
from torch.utils.data import IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, n, by_worker):
        self.n, self.by_worker = n, by_worker

    def __iter__(self):
        worker, workers = get_worker_info(), get_worker_info().num_workers
        if self.by_worker:
            first = rank * workers + worker.id
            yield from range(first, self.n, world_size * workers)
        else:
            yield from range(rank, self.n, world_size)


def counts(by_worker):
    """How often all ranks together read each sample."""
    options = {"num_workers": 2, "multiprocessing_context": "fork"}
    loader = DataLoader(Stream(8, by_worker), batch_size=None, **options)
    dist.all_gather_object(seen, list(loader))
    read = sum(seen, [])
    assert {*read} == {*range(8)}
    return {read.count(sample) for sample in read}


assert counts(by_worker=False) == {2}
assert counts(by_worker=True) == {1}
