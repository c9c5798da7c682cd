# `nn.DataParallel` returns a loss for each device
# ruff: noqa: F821  names are those of the test's PRELUDE
import course_lib

device, _ = course_lib.devices(2, memory="1 GB", quiet=True)


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = linear(1, 1)

    def forward(self, x):
        return self.layer(x).square().mean()


def gradient(reduce, wrap):
    model = WithLoss().to(device)
    loss = wrap(model)(torch.arange(8.0, device=device).reshape(8, 1))
    shapes.append(tuple(loss.shape))
    reduce(loss).backward()
    return model.layer.weight.grad.cpu()


shapes = []
both = functools.partial(nn.DataParallel, device_ids=[0, 1])
single = gradient(torch.mean, lambda model: model)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it gathers scalars, and says so
    assert_close(gradient(torch.sum, both), 2 * single)
    assert_close(gradient(torch.mean, both), single)
assert shapes == [(), (2,), (2,)]
