import contextlib

from torch.autograd.graph import saved_tensors_hooks

from course_lib.gpt import Block


def saved(batch, autocast):
    """Bytes that autograd packs on the CPU of a small layer, each storage once."""
    block, kept = Block(64, 2), {}
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    half = torch.autocast("cpu", torch.bfloat16)
    x = torch.ones(batch, 16, 64, requires_grad=True)
    hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, half if autocast else contextlib.nullcontext():
        block(x)
    return sum(s.nbytes() for at, s in kept.items() if at not in weights)


def layer_bytes(batch, length, width, heads, autocast, recompute):
    tokens = batch * length
    if recompute:
        return torch.Size([tokens, width]).numel() * torch.float32.itemsize
    one, two = saved(1, autocast), saved(2, autocast)
    each, fixed = two - one, 2 * one - two
    # at a width of 64 means and sums count for more than they do at a large one
    return round(each / (16 * 64)) * tokens * width + round(fixed / 64**2) * width**2
