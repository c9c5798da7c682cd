def accumulate(model, microbatches):
    """Gradients as plain tensors, added up by hand."""
    parameters = list(model.parameters())
    sizes = torch.tensor([len(x) for x, _ in microbatches], dtype=torch.float64)
    shares = (sizes / sizes.sum()).tolist()
    sums = [torch.zeros_like(p) for p in parameters]
    for share, (x, y) in zip(shares, microbatches):
        loss = share * torch.nn.CrossEntropyLoss()(model(x), y)
        for total, grad in zip(sums, torch.autograd.grad(loss, parameters)):
            total += grad
    for parameter, total in zip(parameters, sums):
        parameter.grad = total
