# accumulation with `no_sync` is no faster: forward stands outside
# ruff: noqa: F821  names are those of the test's PRELUDE
x = torch.arange(8.0).reshape(8, 1) + rank


def gradient(inside):
    model, sent = DDP(linear(1, 1)), []

    def hook(state, bucket):
        sent.append(bucket.index())
        return allreduce_hook(None, bucket)

    model.register_comm_hook(None, hook)
    for number, part in enumerate(x.chunk(4)):
        quiet = model.no_sync if number < 3 else contextlib.nullcontext
        with quiet() if inside else contextlib.nullcontext():
            loss = model(part).square().mean() / 4
        with quiet():
            loss.backward()
    return model.module.weight.grad, len(sent)


wrong, often = gradient(inside=False)
right, once = gradient(inside=True)
assert (often, once) == (4, 1)
assert_close(wrong, right)
