class BucketDDP(nn.Module):
    """Buckets that stay, with a view for each parameter; all calls at once."""

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        with torch.no_grad():
            for tensor in [*module.parameters(), *module.buffers()]:
                dist.broadcast(tensor, 0)
        groups, room = [], 0
        for p in [*module.parameters()][::-1]:
            if p.requires_grad:
                size = p.numel() * p.element_size()
                if size > room:
                    groups.append([])
                    room = cap
                groups[-1].append(p)
                room -= size
        self.flats, self.views = [], []
        for group in groups:
            flat = torch.zeros(sum(p.numel() for p in group), device=group[0].device)
            parts = flat.split([p.numel() for p in group])
            self.views += [(p, part.view(p.shape)) for p, part in zip(group, parts)]
            self.flats.append(flat)

    def forward(self, *inputs):
        return self.module(*inputs)

    @torch.no_grad()
    def finish(self):
        for p, view in self.views:
            view.zero_() if p.grad is None else view.copy_(p.grad)
        for flat in self.flats:
            flat /= dist.get_world_size()
        works = [dist.all_reduce(flat, async_op=True) for flat in self.flats]
        for work in works:
            work.wait()
        for p, view in self.views:
            p.grad = view.clone()
