class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.sizes = [p.numel() for p in self.trained]
        self.ranks, self.max_norm = dist.get_world_size(), max_norm
        flat = self.flat([p.detach() for p in self.trained])
        self.own = flat.chunk(self.ranks)[dist.get_rank()].clone()
        self.adamw = torch.optim.AdamW([self.own], lr=lr)

    def flat(self, tensors):
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        return nn.functional.pad(flat, (0, -len(flat) % self.ranks))

    @torch.no_grad()
    def step(self):
        grads = self.flat([p.grad for p in self.trained])
        mean = torch.empty_like(self.own)
        dist.reduce_scatter_tensor(mean, grads)
        mean /= self.ranks
        squares = mean.square().sum()
        dist.all_reduce(squares)
        norm = squares.sqrt()
        self.own.grad = mean * (self.max_norm / norm).clamp(max=1)
        self.adamw.step()
        weights = torch.empty_like(grads)
        dist.all_gather_into_tensor(weights, self.own)
        parts = weights[: sum(self.sizes)].split(self.sizes)
        for p, part in zip(self.trained, parts):
            p.copy_(part.view_as(p))
