def accumulate_tokens(model, microbatches):
    total = sum((y != -100).float().sum().item() for _, y in microbatches)
    for x, y in microbatches:
        there = y != -100
        logits = model(x)[there]
        torch.nn.CrossEntropyLoss(reduction="sum")(logits, y[there]).div(
            total
        ).backward()
