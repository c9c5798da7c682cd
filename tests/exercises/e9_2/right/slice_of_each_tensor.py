class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.max_norm = max_norm
        self.trained = [p for p in parameters if p.requires_grad]
        self.slices = [self.padded(p.detach())[self.rank].clone() for p in self.trained]
        self.optimizer = torch.optim.AdamW(self.slices, lr=lr, foreach=False)

    def padded(self, tensor):
        rows = -(-tensor.numel() // self.ranks)
        padded = torch.zeros(self.ranks * rows)
        padded[: tensor.numel()] = tensor.reshape(-1)
        return padded.view(self.ranks, rows)

    def step(self):
        for p, own in zip(self.trained, self.slices):
            own.grad = torch.empty_like(own)
            parts = list((self.padded(p.grad) / self.ranks).unbind())
            dist.reduce_scatter(own.grad, parts)
        norms = torch.stack([own.grad.norm() for own in self.slices])
        total = norms.norm() ** 2
        dist.all_reduce(total)
        if total.sqrt() > self.max_norm:
            for own in self.slices:
                own.grad.mul_(self.max_norm / total.sqrt())
        self.optimizer.step()
        for p, own in zip(self.trained, self.slices):
            parts = [torch.empty_like(own) for _ in range(self.ranks)]
            dist.all_gather(parts, own)
            p.data.copy_(torch.cat(parts)[: p.numel()].view(p.shape))
        self.optimizer.zero_grad()
