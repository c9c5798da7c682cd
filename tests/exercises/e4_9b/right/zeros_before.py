class CarefulDDP(nn.Module):
    """No gradient is ever missing: backward adds to zeros."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), 0)

    def forward(self, *inputs):
        for p in self.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        return self.module(*inputs)

    def finish(self):
        works = [
            (p, dist.all_reduce(p.grad, async_op=True))
            for p in self.parameters()
            if p.requires_grad
        ]
        for p, work in works:
            work.wait()
            p.grad.mul_(1 / dist.get_world_size())
