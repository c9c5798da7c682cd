from torch.distributed.fsdp import fully_shard


def train(model, batches, k):
    """Every k-th sample; all but the last micro-batch without communication."""
    model.blocks.apply(lambda part: fully_shard(part) if hasattr(part, "qkv") else None)
    fully_shard(model, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for tokens, targets in batches:
        *waiting, last = [(tokens[i::k], targets[i::k]) for i in range(k)]
        model.set_requires_gradient_sync(False)
        for x, y in waiting:
            (cross_entropy(model(x).flatten(0, 1), y.flatten()) / k).backward()
        model.set_requires_gradient_sync(True)
        x, y = last
        (cross_entropy(model(x).flatten(0, 1), y.flatten()) / k).backward()
        optimizer.step()
        for p in model.parameters():
            p.grad = None
