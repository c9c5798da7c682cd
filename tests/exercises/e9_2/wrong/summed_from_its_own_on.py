# hint: [bits]
class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.adamw = torch.optim.AdamW(self.trained, lr=lr)
        self.ranks, self.max_norm = dist.get_world_size(), max_norm

    def step(self):
        for p in self.trained:
            every = [torch.empty_like(p.grad) for _ in range(self.ranks)]
            dist.all_gather(every, p.grad)
            mine = dist.get_rank()
            p.grad = sum(every[mine:] + every[:mine]) / self.ranks
        nn.utils.clip_grad_norm_(self.trained, self.max_norm)
        self.adamw.step()
