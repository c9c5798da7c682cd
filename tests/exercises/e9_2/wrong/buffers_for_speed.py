# hint: [more kept]
class ShardedAdamW:
    """Makes what it needs only once: two flat tensors, and the slice is in one."""

    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.ranks, self.max_norm = dist.get_world_size(), max_norm
        count = sum(p.numel() for p in self.trained)
        self.weights, self.grads = torch.zeros(2, count + -count % self.ranks)
        self.weights[:count] = torch.cat([p.detach().flatten() for p in self.trained])
        self.own = self.weights.chunk(self.ranks)[dist.get_rank()]
        self.own.grad = torch.zeros_like(self.own)
        self.adamw = torch.optim.AdamW([self.own], lr=lr)

    @torch.no_grad()
    def step(self):
        start = 0
        for p in self.trained:
            self.grads[start : start + p.numel()] = p.grad.flatten()
            start += p.numel()
        dist.reduce_scatter_tensor(self.own.grad, self.grads)
        self.own.grad /= self.ranks
        squares = self.own.grad.square().sum()
        dist.all_reduce(squares)
        self.own.grad *= (self.max_norm / squares.sqrt()).clamp(max=1)
        self.adamw.step()
        dist.all_gather_into_tensor(self.weights, self.own.clone())
        start = 0
        for p in self.trained:
            p.copy_(self.weights[start : start + p.numel()].view_as(p))
            start += p.numel()
