class ShardedAdamW:
    """Parts go round a ring: added on the way first, then passed on as they are."""

    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.owned = (self.rank + 1) % self.ranks
        self.max_norm = max_norm
        parts = self.parts([p.detach() for p in self.trained])
        self.own = torch.empty_like(parts[self.owned]).copy_(parts[self.owned])
        self.adamw = torch.optim.AdamW([self.own], lr=lr)

    def parts(self, tensors):
        flat = torch.cat([t.reshape(-1) for t in tensors])
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % self.ranks)])
        return list(flat.chunk(self.ranks))

    def pass_on(self, part):
        received = torch.empty_like(part)
        right, left = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        sending = dist.isend(part.clone(), right)
        dist.recv(received, left)
        sending.wait()
        return received

    @torch.no_grad()
    def step(self):
        parts = self.parts([p.grad for p in self.trained])
        for i in range(self.ranks - 1):
            parts[(self.rank - i - 1) % self.ranks] += self.pass_on(
                parts[(self.rank - i) % self.ranks]
            )
        mean = parts[self.owned] / self.ranks
        norm = torch.linalg.vector_norm(mean).square()
        dist.all_reduce(norm)
        self.own.grad = mean * min(1.0, self.max_norm / norm.sqrt().item())
        self.adamw.step()
        parts[self.owned] = self.own
        for i in range(self.ranks - 1):
            parts[(self.rank - i) % self.ranks] = self.pass_on(
                parts[(self.rank - i + 1) % self.ranks]
            )
        flat = torch.cat(parts)
        for p in self.trained:
            p.copy_(flat[: p.numel()].view_as(p))
            flat = flat[p.numel() :]
