# without DDP: ranks begin with different weights
# ruff: noqa: F821  names are those of the test's PRELUDE
torch.manual_seed(rank)
model = nn.Linear(4, 2)
assert not same_on_all_ranks(model)
for parameter in model.parameters():
    dist.broadcast(parameter.data, 0)
assert same_on_all_ranks(model)
