from torch.distributed._functional_collectives import (
    all_gather_tensor,
    all_reduce,
    reduce_scatter_tensor,
)


class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.weights, self.bound = tuple(parameters), max_norm
        self.group, self.ranks = dist.group.WORLD, dist.get_world_size()
        self.places = [i for i, p in enumerate(self.weights) if p.requires_grad]
        flat = self._flat(lambda p: p.data)
        share = len(flat) // self.ranks
        start = share * dist.get_rank()
        self.part = torch.tensor(flat[start : start + share].tolist())
        self.adam = torch.optim.AdamW([self.part], lr=lr, fused=True)

    def _flat(self, of):
        every = [of(self.weights[i]).ravel() for i in self.places]
        numbers = sum(len(one) for one in every)
        return torch.cat([*every, torch.zeros(-numbers % self.ranks)])

    @torch.no_grad()
    def step(self):
        summed = reduce_scatter_tensor(
            self._flat(lambda p: p.grad), "sum", 0, self.group
        )
        self.part.grad = summed / self.ranks
        norm = all_reduce((self.part.grad**2).sum(), "sum", self.group) ** 0.5
        if norm > self.bound:
            self.part.grad *= self.bound / norm
        self.adam.step()
        every, start = all_gather_tensor(self.part, 0, self.group) + 0, 0
        for i in self.places:
            stop = start + self.weights[i].numel()
            self.weights[i].data = every[start:stop].view(self.weights[i].shape).clone()
            start = stop
