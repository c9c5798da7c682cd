class EarlyDDP(nn.Module):
    """All gradients live in one buffer, of which buckets are slices."""

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        params = [p for p in module.parameters() if p.requires_grad][::-1]
        self.buffer = torch.zeros(
            sum(p.numel() for p in params), device=params[0].device
        )
        self.views, self.number, ends, position = {}, {}, [0], 0
        for p in params:
            if 4 * (position + p.numel() - ends[-1]) > cap and position > ends[-1]:
                ends.append(position)
            self.views[p] = self.buffer[position : position + p.numel()].view_as(p)
            self.number[p] = len(ends) - 1
            position += p.numel()
            p.register_post_accumulate_grad_hook(self.on_grad)
        self.slices = self.buffer.tensor_split(ends[1:])
        self.seen, self.calls = [], []

    def on_grad(self, p):
        self.views[p].copy_(p.grad)
        self.seen.append(self.number[p])
        numbers = list(self.number.values())
        while len(self.calls) < len(self.slices):
            index = len(self.calls)
            if self.seen.count(index) < numbers.count(index):
                break
            self.launch(index)

    def launch(self, index):
        self.calls.append(dist.all_reduce(self.slices[index], async_op=True))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for index in range(len(self.calls), len(self.slices)):
            self.launch(index)
        for call in reversed(self.calls):
            while not call.is_completed():
                pass
        self.buffer.mul_(1 / dist.get_world_size())
        for p, view in self.views.items():
            p.grad = view.clone()
        self.buffer.zero_()
        self.seen.clear()
        self.calls.clear()
