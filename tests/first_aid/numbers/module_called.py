# `model.module(x)` in training: ranks learn from their own samples alone
# ruff: noqa: F821  names are those of the test's PRELUDE
for call, equal in ((lambda m: m.module, False), (lambda m: m, True)):
    model = DDP(linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)
    call(model)(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    assert same_on_all_ranks(model) is equal
