# hint: its mean is 0 / 0
def accumulate_tokens(model, microbatches):
    total = sum((targets != -100).sum() for _, targets in microbatches)
    for tokens, targets in microbatches:
        mask = targets != -100
        logs = model(tokens).log_softmax(-1)
        picked = logs.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        mean = -(picked * mask).sum() / mask.sum()
        (mean * mask.sum() / total).backward()
