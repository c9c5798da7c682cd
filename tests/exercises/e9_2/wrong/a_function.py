# hint: [no step]
def ShardedAdamW(parameters, lr, max_norm):
    trained = [p for p in parameters if p.requires_grad]
    for p in trained:
        dist.all_reduce(p.grad) if p.grad is not None else None
