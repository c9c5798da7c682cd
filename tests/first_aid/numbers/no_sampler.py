# an epoch has as many steps as with one rank
# ruff: noqa: F821  names are those of the test's PRELUDE
data = TensorDataset(torch.arange(8.0))


def read(sampler):
    """How many steps, and how often all ranks together read each sample."""
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    dist.all_gather_object(seen, torch.cat([batch for (batch,) in loader]).tolist())
    return len(loader), {sum(seen, []).count(sample) for sample in sum(seen, [])}


assert read(None) == (4, {2})
assert read(DistributedSampler(data)) == (2, {1})
