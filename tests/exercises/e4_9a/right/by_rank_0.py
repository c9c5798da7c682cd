class FirstDDP(nn.Module):
    """Rank 0 takes the mean and hands it out."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.ranks = dist.get_world_size()
        for p in module.parameters():
            new = p.detach().clone()
            dist.broadcast(new, 0)
            p.data = new
        for b in module.buffers():
            dist.broadcast(b, 0)

    def forward(self, *inputs, **named):
        return self.module(*inputs, **named)

    def finish(self):
        for p in reversed(list(self.module.parameters())):
            dist.reduce(p.grad, dst=0)
            if dist.get_rank() == 0:
                p.grad.mul_(1 / self.ranks)
            dist.broadcast(p.grad, src=0)
