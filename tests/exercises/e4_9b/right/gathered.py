class CarefulDDP(nn.Module):
    """Every rank sees every gradient, and forgets those that are zero everywhere."""

    def __init__(self, module):
        super().__init__()
        self.module, self.ranks = module, dist.get_world_size()
        for part in module.modules():
            for value in (*part.parameters(False), *part.buffers(False)):
                dist.broadcast(value.data, src=0)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for p in filter(lambda p: p.requires_grad, self.module.parameters()):
            own = p.grad if p.grad is not None else p.detach() * 0
            everyone = [torch.empty_like(own) for _ in range(self.ranks)]
            dist.all_gather(everyone, own)
            mean = sum(everyone) / self.ranks
            p.grad = mean if mean.any() else None
