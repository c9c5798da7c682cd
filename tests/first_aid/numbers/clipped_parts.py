# clipping inside `no_sync`: each rank shortens its own part
# ruff: noqa: F821  names are those of the test's PRELUDE
x = torch.tensor([[3.0], [1.0], [-1.0], [1.0]])


def gradient(each):
    """Clipped after each backward, or once after the last one."""
    model, alike = DDP(linear(1, 1, bias=False)), []
    for number, part in enumerate(x[rank::world_size]):
        quiet = contextlib.nullcontext if number else model.no_sync
        with quiet():
            (model(part).sum() / 2).backward()
            if each or number:
                norm = clip_grad_norm_(model.parameters(), 0.8)
                dist.all_gather_object(seen, norm.item())
                alike.append(len(set(seen)) == 1)
    return model.module.weight.grad, all(alike)


single = linear(1, 1, bias=False)
single(x).mean().backward()
clip_grad_norm_(single.parameters(), 0.8)
wrong, wrong_alike = gradient(each=True)
right, right_alike = gradient(each=False)
assert (wrong_alike, right_alike) == (False, True)
assert_close(right, single.weight.grad)
assert (wrong - right).abs() > 0.1
