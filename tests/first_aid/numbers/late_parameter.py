# a layer that was added or replaced after `DDP(model)`
# ruff: noqa: F821  names are those of the test's PRELUDE
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = linear(4, 4), linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x))


for late in (True, False):
    net = Net()
    if not late:
        net.head = linear(4, 3)
    model = DDP(net, find_unused_parameters=True)
    if late:
        net.head = linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.manual_seed(rank)
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    assert same_on_all_ranks(model) is not late
