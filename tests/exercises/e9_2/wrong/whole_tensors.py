# mistake: Whole tensors are dealt out, and one of them has most of the numbers: cut
#   within tensors as well, as in one flat tensor.
class ShardedAdamW:
    """Whole tensors have owners: the largest one makes a share too large."""

    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.max_norm = max_norm
        self.mine = self.trained[self.rank :: self.ranks]
        self.adamw = torch.optim.AdamW(self.mine, lr=lr)

    def step(self):
        for i, p in enumerate(self.trained):
            dist.reduce(p.grad, dst=i % self.ranks)
        squares = torch.zeros(1)
        for p in self.mine:
            p.grad /= self.ranks
            squares += p.grad.norm() ** 2
        dist.all_reduce(squares)
        for p in self.mine:
            p.grad *= min(1, self.max_norm / squares.sqrt().item())
        self.adamw.step()
        for i, p in enumerate(self.trained):
            dist.broadcast(p.data, src=i % self.ranks)
