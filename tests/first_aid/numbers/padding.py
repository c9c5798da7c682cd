# the same, in an evaluation whose loader has a `DistributedSampler`
# ruff: noqa: F821  names are those of the test's PRELUDE
data = [1.0, 0.0, 0.0, 0.0, 1.0]
sampler = DistributedSampler(data, shuffle=False)


def accuracy(indices):
    totals = torch.tensor([sum(data[i] for i in indices), len(indices)])
    dist.all_reduce(totals)
    return (totals[0] / totals[1]).item()


assert len(sampler) * world_size > len(data)
assert accuracy(list(sampler)) == 0.5
own = range(rank, len(data), world_size)
assert_close(accuracy(own), sum(data) / len(data))
