import math


class ShardedAdamW:
    """The parts are of unlike sizes: their owners get and send them one by one."""

    def __init__(self, parameters, lr, max_norm):
        self.parameters, self.max_norm = list(parameters), max_norm
        self.parameters = list(filter(lambda p: p.requires_grad, self.parameters))
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        mine = self.parts(torch.nn.utils.parameters_to_vector(self.parameters))
        self.mine = nn.Parameter(mine[self.rank].detach().clone())
        self.inner = torch.optim.AdamW([self.mine], lr)

    def parts(self, vector):
        return vector.tensor_split(self.n)

    def step(self):
        grads = torch.cat([p.grad.view(-1) for p in self.parameters])
        parts = self.parts(grads)
        works = [
            dist.reduce(part, dst=owner, async_op=True)
            for owner, part in enumerate(parts)
        ]
        for work in works:
            work.wait()
        self.mine.grad = parts[self.rank] / self.n
        squares = torch.tensor(self.mine.grad.double().pow(2).sum().item())
        gathered = [torch.zeros_like(squares) for _ in range(self.n)]
        dist.all_gather(gathered, squares)
        norm = math.sqrt(sum(map(float, gathered)))
        if norm > self.max_norm:
            self.mine.grad *= self.max_norm / norm
        self.inner.step()
        with torch.no_grad():
            grads[:] = 0
            parts[self.rank].copy_(self.mine)
            for owner, part in enumerate(parts):
                dist.broadcast(part, src=owner)
            torch.nn.utils.vector_to_parameters(grads, self.parameters)
        for p in self.parameters:
            p.grad = None
