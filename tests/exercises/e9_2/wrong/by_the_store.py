# hint: [less sent]
class ShardedAdamW:
    """The gradients take a way of their own: as text, by the store of the group."""

    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.sizes = [p.numel() for p in self.trained]
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.max_norm, self.steps = max_norm, 0
        flat = torch.cat([p.detach().flatten() for p in self.trained])
        self.own = self.padded(flat).chunk(self.ranks)[self.rank].clone()
        self.adamw = torch.optim.AdamW([self.own], lr=lr)
        self.store = dist.distributed_c10d._get_default_store()

    def padded(self, flat):
        return nn.functional.pad(flat, (0, -len(flat) % self.ranks))

    @torch.no_grad()
    def step(self):
        flat = torch.cat([p.grad.flatten() for p in self.trained])
        self.store.set(f"{self.steps}/{self.rank}", flat.numpy().tobytes())
        every = [
            torch.frombuffer(
                bytearray(self.store.get(f"{self.steps}/{rank}")), dtype=torch.float32
            )
            for rank in range(self.ranks)
        ]
        self.steps += 1
        mean = self.padded(torch.stack(every).mean(0))
        mean *= (self.max_norm / mean.norm()).clamp(max=1)
        self.own.grad = mean.chunk(self.ranks)[self.rank].clone()
        self.adamw.step()
        weights = torch.empty_like(mean)
        dist.all_gather_into_tensor(weights, self.own)
        parts = weights[: sum(self.sizes)].split(self.sizes)
        for p, part in zip(self.trained, parts):
            p.copy_(part.view_as(p))
