# mistake: AdamW is given all weights, so that each rank holds the averages of all.
#   Give it this rank's part alone.
class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.adamw = torch.optim.AdamW(self.trained, lr=lr)
        self.max_norm = max_norm

    def step(self):
        for p in self.trained:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        nn.utils.clip_grad_norm_(self.trained, self.max_norm)
        self.adamw.step()
