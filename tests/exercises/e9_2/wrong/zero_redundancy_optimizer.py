# hint: [three halves]
# same as: all_reduce_and_all_gather
from torch.distributed.optim import ZeroRedundancyOptimizer


class ShardedAdamW:
    def __init__(self, parameters, lr, max_norm):
        self.trained = [p for p in parameters if p.requires_grad]
        adamw = torch.optim.AdamW
        self.zero = ZeroRedundancyOptimizer(self.trained, optimizer_class=adamw, lr=lr)
        self.max_norm = max_norm

    def step(self):
        for p in self.trained:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        nn.utils.clip_grad_norm_(self.trained, self.max_norm)
        self.zero.step()
