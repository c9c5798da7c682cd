def accumulate_tokens(model, microbatches):
    counts = [int((targets != -100).sum()) for _, targets in microbatches]
    for count, (tokens, targets) in zip(counts, microbatches):
        if count:
            loss = cross_entropy(model(tokens).reshape(-1, 20), targets.reshape(-1))
            (loss * count / sum(counts)).backward()
