from contextlib import contextmanager


class QuietDDP(nn.Module):
    """Fixed flat buffers; a hook gets a gradient before it is added to `.grad`."""

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for t in list(module.parameters()) + list(module.buffers()):
            dist.broadcast(t.data, src=0)
        groups = []
        for p in reversed(list(module.parameters())):
            if not p.requires_grad:
                continue
            used = sum(q.numel() for q in groups[-1]) * 4 if groups else cap
            if used + p.numel() * 4 > cap:
                groups.append([])
            groups[-1].append(p)
        self.groups = groups
        self.flats = [p[0].new_zeros(sum(q.numel() for q in p)) for p in groups]
        self.slots = []
        for number, (group, flat) in enumerate(zip(groups, self.flats)):
            parts = flat.split([p.numel() for p in group])
            self.slots.append([part.view_as(p) for part, p in zip(parts, group)])
            for p, slot in zip(group, self.slots[-1]):
                p.register_hook(self.make_hook(number, p, slot))
        self.muted = False
        self.start()

    @contextmanager
    def no_sync(self):
        muted, self.muted = self.muted, True
        try:
            yield
        finally:
            self.muted = muted

    def start(self):
        self.left = [len(group) for group in self.groups]
        self.works = []
        for flat in self.flats:
            flat.zero_()

    def make_hook(self, number, p, slot):
        def hook(gradient):
            if self.muted:
                return
            slot.copy_(gradient if p.grad is None else p.grad + gradient)
            self.left[number] -= 1
            while len(self.works) < len(self.left) and not self.left[len(self.works)]:
                self.send()

        return hook

    def send(self):
        flat = self.flats[len(self.works)]
        self.works.append(dist.all_reduce(flat, async_op=True))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for group, slots in list(zip(self.groups, self.slots))[len(self.works) :]:
            for p, slot in zip(group, slots):
                slot.zero_() if p.grad is None else slot.copy_(p.grad)
            self.send()
        for work, group, slots in zip(self.works, self.groups, self.slots):
            work.wait()
            for p, slot in zip(group, slots):
                p.grad = slot / dist.get_world_size()
        self.start()
