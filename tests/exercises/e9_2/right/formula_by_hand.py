class ShardedAdamW:
    """The weights become views of one flat tensor, the averages are two tensors."""

    def __init__(self, parameters, lr, max_norm):
        self.lr, self.max_norm, self.steps = lr, max_norm, 0
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.trained = [p for p in parameters if p.requires_grad]
        numbers = sum(p.numel() for p in self.trained)
        self.share = (numbers + self.ranks - 1) // self.ranks
        self.flat = torch.zeros(self.share * self.ranks)
        start = 0
        for p in self.trained:
            stop = start + p.numel()
            self.flat[start:stop] = p.data.flatten()
            p.data = self.flat[start:stop].view(p.shape)
            start = stop
        begin = self.rank * self.share
        self.own = self.flat[begin : begin + self.share]
        self.mean, self.square = torch.zeros(2, self.share)

    def step(self):
        grads = torch.zeros_like(self.flat)
        torch.cat([p.grad.flatten() for p in self.trained], out=grads[: self.numbers()])
        theirs = torch.empty_like(grads)
        dist.all_to_all_single(theirs, grads)
        grad = theirs.view(self.ranks, self.share).mean(dim=0)
        norm = grad.norm() ** 2
        dist.all_reduce(norm)
        grad *= min(1.0, self.max_norm / (norm.sqrt().item() + 1e-6))
        self.steps += 1
        self.mean.mul_(0.9).add_(grad, alpha=0.1)
        self.square.mul_(0.999).addcmul_(grad, grad, value=0.001)
        self.own.mul_(1 - 0.01 * self.lr)
        first = self.mean / (1 - 0.9**self.steps)
        second = (self.square / (1 - 0.999**self.steps)).sqrt() + 1e-8
        self.own.addcdiv_(first, second, value=-self.lr)
        dist.all_gather_into_tensor(self.flat, self.own.clone())

    def numbers(self):
        return sum(p.numel() for p in self.trained)
