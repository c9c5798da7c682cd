class CarefulDDP(nn.Module):
    """One call; shared parameters are known by what they are."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        with torch.no_grad():
            for _, p in module.named_parameters(remove_duplicate=False):
                dist.broadcast(p, 0)
            for b in module.buffers():
                dist.broadcast(b, 0)
        every = module.named_parameters(remove_duplicate=False)
        self.own = list({id(p): p for _, p in every if p.requires_grad}.values())

    def forward(self, *inputs):
        return self.module(*inputs)

    @torch.no_grad()
    def finish(self):
        flat = torch.cat(
            [
                torch.zeros(p.numel(), device=p.device)
                if p.grad is None
                else p.grad.reshape(-1)
                for p in self.own
            ]
        )
        flat.div_(dist.get_world_size())
        dist.all_reduce(flat)
        start = 0
        for p in self.own:
            p.grad = flat[start : start + p.numel()].view_as(p).clone()
            start += p.numel()
