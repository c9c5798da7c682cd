class CarefulDDP(nn.Module):
    """The ranks first tell each other which gradients there are."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        for value in (*map(torch.detach, module.parameters()), *module.buffers()):
            dist.broadcast(value, src=0)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        parameters = list(self.module.parameters())
        there = [float(p.grad is not None) for p in parameters]
        there = torch.tensor(there, device=parameters[0].device)
        dist.all_reduce(there)
        for p, count in zip(parameters, there.tolist()):
            if count:
                grad = torch.zeros_like(p) if p.grad is None else p.grad
                dist.all_reduce(grad)
                p.grad = grad / dist.get_world_size()
