from torch.distributed.fsdp import fully_shard


def train(model, batches, k):
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for tokens, targets in batches:
        pairs = zip(tokens.chunk(k), targets.chunk(k))
        for number, (x, y) in enumerate(pairs):
            model.set_requires_gradient_sync(number == k - 1)
            loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
            (loss / k).backward()
        optimizer.step()
        optimizer.zero_grad()
