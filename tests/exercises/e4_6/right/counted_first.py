def token_step(model, optimizer, microbatches):
    device = microbatches[0][0].device
    count = sum((targets != -100).sum() for _, targets in microbatches)
    dist.all_reduce(count)
    scale = dist.get_world_size() / count
    total = torch.zeros((), device=device)

    def run(tokens, targets):
        logits = model(tokens).flatten(0, 1)
        loss = cross_entropy(logits, targets.flatten(), reduction="sum")
        (loss * scale).backward()
        total.add_(loss.detach())

    optimizer.zero_grad()
    with model.no_sync():
        for tokens, targets in microbatches[:-1]:
            run(tokens, targets)
    run(*microbatches[-1])
    optimizer.step()
    dist.all_reduce(total)
    return (total / count).item()
