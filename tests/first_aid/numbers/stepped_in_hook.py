# a step in `register_post_accumulate_grad_hook` under DDP: it comes before DDP has sent
# ruff: noqa: F821  names are those of the test's PRELUDE
x = torch.arange(8.0).reshape(8, 1) / 8 + rank


def trained(wrap, average):
    net = linear(1, 1)
    optimizers = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}

    def step(p):
        if average:
            dist.all_reduce(p.grad)
            p.grad /= world_size
        optimizers[p].step()
        optimizers[p].zero_grad()

    model = wrap(net)
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(step)
    for part in x.chunk(2):
        model(part).square().mean().backward()
    return net


def by_ddp():
    model = DDP(linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for part in x.chunk(2):
        optimizer.zero_grad()
        model(part).square().mean().backward()
        optimizer.step()
    return model.module


model = trained(DDP, average=False)
assert not same_on_all_ranks(model)
model = trained(lambda net: net, average=True)
assert same_on_all_ranks(model)
assert_close(model.state_dict(), by_ddp().state_dict())
