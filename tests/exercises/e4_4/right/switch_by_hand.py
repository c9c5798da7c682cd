def accumulate(model, optimizer, microbatches):
    optimizer.zero_grad(set_to_none=False)
    for i, (images, labels) in enumerate(microbatches, start=1):
        model.require_backward_grad_sync = i == len(microbatches)
        criterion = nn.CrossEntropyLoss()
        (criterion(model(images), labels) * (1 / len(microbatches))).backward()
    optimizer.step()
