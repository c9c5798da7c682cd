def score(net, loader, device):
    hits = total = 0
    for x, y in loader:
        hits += int((net(x.to(device)).argmax(1) == y.to(device)).sum())
        total += len(y)
    return hits / total


def evaluate_and_save(rank, model, data, path):
    device = next(model.parameters()).device
    loader = DataLoader(data, batch_size=64, num_workers=1)
    model.eval()
    result = torch.empty((), dtype=torch.float64, device=device)
    if dist.get_rank() == 0:
        with torch.no_grad():
            result.fill_(score(model.module, loader, device))
        with open(path, "wb") as file:
            torch.save({k: v.cpu() for k, v in model.module.state_dict().items()}, file)
    dist.broadcast(result, 0)
    dist.barrier()
    weights = torch.load(path, map_location=device)
    model.load_state_dict({f"module.{k}": v for k, v in weights.items()})
    model.train()
    dist.barrier()
    return float(result)
