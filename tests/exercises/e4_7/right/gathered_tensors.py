class _Tally:
    def __init__(self, device):
        self.table = torch.zeros(10, 3, device=device)

    def add(self, outputs, labels):
        for output, label in zip(outputs, labels):
            right = output.argmax() == label
            losses = nn.functional.nll_loss(output.log_softmax(0)[None], label[None])
            self.table[label] += torch.stack([losses, right.float(), losses * 0 + 1])

    def metrics(self):
        tables = [torch.empty_like(self.table) for _ in range(dist.get_world_size())]
        dist.all_gather(tables, self.table)
        table = torch.stack(tables).sum(0)
        loss, right, count = table[table[:, 2] != 0].T
        recall = torch.mean(right / count)
        ways = (loss.sum() / count.sum(), right.sum() / count.sum(), recall)
        return dict(zip(("loss", "accuracy", "recall"), map(torch.Tensor.item, ways)))


def evaluate(model, data):
    """A table per rank, gathered; a rank without samples lets zeros through DDP."""
    device = next(model.parameters()).device
    own = list(range(len(data)))[dist.get_rank() :: dist.get_world_size()]
    tally, previous = _Tally(device), torch.is_grad_enabled()
    model.eval()
    torch.set_grad_enabled(False)
    try:
        for images, labels in DataLoader(Subset(data, own), batch_size=37):
            tally.add(model(images.to(device)), labels.to(device))
        if not own:
            model(torch.zeros(1, 1, 8, 8, device=device))
    finally:
        torch.set_grad_enabled(previous)
        model.train()
    return tally.metrics()
