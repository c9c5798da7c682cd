# batches of the ranks differ in length, and training differs from that of one process
# ruff: noqa: F821  names are those of the test's PRELUDE
x, y = torch.arange(8.0).reshape(8, 1), torch.ones(8, 1)
own = slice(0, 6) if rank == 0 else slice(6, 8)
batch, wanted = x[own], y[own]
model = DDP(linear(1, 1))
mse_loss(model(batch), wanted).backward()
wrong = model.module.weight.grad.clone()

dist.all_gather_object(seen, len(batch))
assert seen == [6, 2]
total = sum(seen)
model.zero_grad()
loss = mse_loss(model(batch), wanted, reduction="sum")
(loss * world_size / total).backward()

single = linear(1, 1)
mse_loss(single(x), y).backward()
assert_close(model.module.weight.grad, single.weight.grad)
assert (wrong - single.weight.grad).abs() > 1
