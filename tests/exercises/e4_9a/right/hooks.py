class FirstDDP(nn.Module):
    """Each gradient leaves as soon as it is there."""

    def __init__(self, module):
        super().__init__()
        self.module, self.works = module, []
        with torch.no_grad():
            for tensor in [*module.parameters(), *module.buffers()]:
                if dist.get_rank():
                    tensor.zero_()
                dist.all_reduce(tensor)
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self.send)

    def send(self, p):
        p.grad.div_(dist.get_world_size())
        self.works.append(dist.all_reduce(p.grad, async_op=True))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        while self.works:
            self.works.pop().wait()
