def accumulate_tokens(model, microbatches):
    counts = [(targets >= 0).sum().item() for _, targets in microbatches]
    for tokens, targets in microbatches:
        mask = targets != -100
        logs = model(tokens).log_softmax(-1)
        picked = logs.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = -(picked * mask).sum() / sum(counts)
        loss.backward()
