# mistake: Rank 0 alone computes all steps, so that it holds the averages of all
#   weights. Let each rank step with its part.
class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        self.adamw = torch.optim.AdamW(self.trained, lr=lr)
        self.max_norm = max_norm

    def step(self):
        for p in self.trained:
            dist.reduce(p.grad, dst=0)
            p.grad /= dist.get_world_size()
        if dist.get_rank() == 0:
            nn.utils.clip_grad_norm_(self.trained, self.max_norm)
            self.adamw.step()
        for p in self.trained:
            dist.broadcast(p.data, src=0)
