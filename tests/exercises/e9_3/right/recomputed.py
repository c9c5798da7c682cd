from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint


def recomputing(forward):
    return lambda x: checkpoint(forward, x, use_reentrant=False)


def train(model, batches, k):
    """Blocks are computed again in backward; a mesh of its own; one group more."""
    mesh = init_device_mesh(model.tokens.weight.device.type, (dist.get_world_size(),))
    for block in model.blocks:
        block.forward = recomputing(block.forward)
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    model = fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(list(model.parameters()), lr=1e-3)
    for tokens, targets in batches:
        optimizer.zero_grad()
        size = len(tokens) // k
        for start in range(0, len(tokens), size):
            x, y = tokens[start : start + size], targets[start : start + size]
            model.set_is_last_backward(start + size == len(tokens))
            model.set_requires_gradient_sync(start + size == len(tokens))
            logits = model(x)
            loss = cross_entropy(logits.view(-1, 96), y.reshape(-1), reduction="sum")
            loss.div(tokens.numel()).backward()
        optimizer.step()
