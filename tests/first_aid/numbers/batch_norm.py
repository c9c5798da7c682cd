# BatchNorm: ranks get different results for the same sample
# ruff: noqa: F821  names are those of the test's PRELUDE
model = DDP(nn.Sequential(nn.BatchNorm1d(1, affine=False), linear(1, 1)))
norm = model.module[0]
model(torch.tensor([[1.0], [3.0]]) + 10 * rank).sum().backward()
dist.all_gather_object(seen, norm.running_mean.tolist())
assert seen[0] != seen[1]

sample = torch.ones(1, 1)
model.eval()
results = [torch.empty(1, 1) for _ in range(world_size)]
dist.all_gather(results, model.module(sample).detach())
assert not results[0].equal(results[1])
dist.all_gather(results, model(sample).detach())  # DDP sends the buffers of rank 0
assert results[0].equal(results[1])
