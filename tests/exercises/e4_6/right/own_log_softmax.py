class Mean:
    """The sum of losses and the count of real targets of this rank."""

    def __init__(self, device):
        self.sums = torch.zeros(2, device=device)

    def add(self, logits, targets):
        mask = targets != -100
        logs = logits.log_softmax(-1)
        picked = logs.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = -torch.where(mask, picked, 0.0).sum()
        self.sums += torch.stack([loss.detach(), mask.sum()])
        return loss


def token_step(model, optimizer, microbatches):
    *quiet, last = microbatches
    mean = Mean(last[0].device)
    optimizer.zero_grad()
    # the plain model: no hook of DDP is waiting
    for tokens, targets in quiet:
        mean.add(model.module(tokens), targets).backward()
    loss = mean.add(model(last[0]), last[1])
    dist.all_reduce(mean.sums)
    loss.backward()
    total, count = mean.sums.tolist()
    with torch.no_grad():
        grads = [p.grad for p in model.parameters()]
        torch._foreach_mul_(grads, dist.get_world_size() / count)
    optimizer.step()
    return total / count
