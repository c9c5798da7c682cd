def token_step(model, optimizer, microbatches):
    """Means, each with its weight; a mean over nothing is left out."""
    counts = [int(targets.ne(-100).sum()) for _, targets in microbatches]
    device = next(model.parameters()).device
    every = torch.empty(dist.get_world_size(), dtype=torch.int64, device=device)
    dist.all_gather_into_tensor(every, torch.tensor([sum(counts)], device=device))
    everything = every.sum().item()
    optimizer.zero_grad(set_to_none=False)
    reported = torch.zeros(1, device=device)
    for i, ((tokens, targets), count) in enumerate(zip(microbatches, counts), start=1):
        model.require_backward_grad_sync = i == len(microbatches)
        logits = model(tokens)
        if count:
            criterion = nn.CrossEntropyLoss()
            loss = criterion(logits.flatten(0, -2), targets.flatten())
        else:
            loss = 0 * logits.sum()
        share = loss * count / everything
        (share * dist.get_world_size()).backward()
        reported += share.detach()
    work = dist.all_reduce(reported, async_op=True)
    optimizer.step()
    work.wait()
    return float(reported)
