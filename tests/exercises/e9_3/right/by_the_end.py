from torch.distributed.fsdp import fully_shard


class Training(nn.Module):
    """The loss is a module, too, and gradients are divided at the end."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        return cross_entropy(self.model(tokens).transpose(1, 2), targets)


def train(model, batches, k):
    for block in reversed(list(model.blocks)):
        fully_shard([block])
    training = fully_shard(Training(model))
    optimizer = torch.optim.AdamW(training.parameters(), lr=0.001, fused=True)
    losses = []
    for tokens, targets in batches:
        total = 0.0
        for i in range(k):
            training.set_requires_gradient_sync(i + 1 == k)
            loss = training(tokens.chunk(k)[i], targets.chunk(k)[i])
            loss.backward()
            total += loss.item() / k
        for p in training.parameters():
            p.grad /= k
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses
