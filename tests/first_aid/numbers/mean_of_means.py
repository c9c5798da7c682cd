# the accuracy changes with the number of ranks
# ruff: noqa: F821  names are those of the test's PRELUDE
answers = torch.tensor([1.0, 1, 1, 1, 1, 0, 1, 0])
own = answers[:6] if rank == 0 else answers[6:]
right, count = own.sum().item(), len(own)
wrong = torch.tensor(right / count)
dist.all_reduce(wrong)
wrong /= world_size

dist.all_gather_object(seen, (right, count))
assert seen == [(5, 6), (1, 2)]
totals = torch.tensor([right, count])
dist.all_reduce(totals)
assert_close(totals[0] / totals[1], answers.mean())
assert abs(wrong - answers.mean()) > 0.05
