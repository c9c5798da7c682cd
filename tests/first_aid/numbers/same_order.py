# the order of the samples is the same in each epoch
# ruff: noqa: F821  names are those of the test's PRELUDE
sampler = DistributedSampler(range(12))
first = list(sampler)
assert list(sampler) == first
sampler.set_epoch(1)
assert list(sampler) != first
