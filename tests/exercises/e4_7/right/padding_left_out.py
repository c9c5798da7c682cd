def evaluate(model, data):
    """DistributedSampler deals equal shares; what it deals twice does not count."""
    device = next(model.parameters()).device
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sampler = DistributedSampler(data, shuffle=False)
    places = torch.tensor(list(sampler)).split(50)
    counts = torch.tensor([rank + ranks * i < len(data) for i in range(len(sampler))])
    sums = {name: torch.zeros(10).double() for name in ("loss", "right", "all")}
    model.eval()
    for own, counted in zip(places, counts.split(50)):
        with torch.no_grad():
            images, labels = data[own.tolist()]
            outputs = model(images.to(device)).cpu()
        labels, outputs = labels[counted], outputs[counted].double()
        right = outputs.max(dim=1).indices == labels
        loss = nn.CrossEntropyLoss(reduction="sum")(outputs, labels)
        sums["loss"][0] += loss
        sums["all"] += torch.bincount(labels, minlength=10)
        sums["right"] += torch.bincount(labels[right], minlength=10)
    model.train()
    for one in sums.values():
        on_device = one.to(device)
        dist.all_reduce(on_device)
        one.copy_(on_device)
    recall = (sums["right"] / sums["all"]).nanmean()
    shares = {"loss": sums["loss"].sum(), "accuracy": sums["right"].sum()}
    means = {name: float(share / len(data)) for name, share in shares.items()}
    return {**means, "recall": float(recall)}
