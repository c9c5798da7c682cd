import contextlib


class QuietDDP(nn.Module):
    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.buckets, room = [], 0
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            size = p.numel() * p.element_size()
            if size > room:
                self.buckets.append([])
                room = cap
            self.buckets[-1].append(p)
            room -= size
        self.hook()
        self.there, self.sent = set(), []

    def hook(self):
        hooked = [p for bucket in self.buckets for p in bucket]
        self.handles = [
            p.register_post_accumulate_grad_hook(self.arrived) for p in hooked
        ]

    @contextlib.contextmanager
    def no_sync(self):
        taken, self.handles = self.handles, []
        for handle in taken:
            handle.remove()
        with contextlib.ExitStack() as stack:
            if taken:  # else this block is within another one
                stack.callback(self.hook)
            yield

    def arrived(self, p):
        self.there.add(p)
        rest = self.buckets[len(self.sent) :]
        while rest and self.there.issuperset(rest[0]):
            self.send(rest.pop(0))

    def send(self, bucket):
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([grad.flatten() for grad in grads])
        call = dist.all_reduce(flat, async_op=True)
        self.sent.append((flat, call))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for bucket in self.buckets[len(self.sent) :]:
            self.send(bucket)
        for bucket, (flat, call) in zip(self.buckets, self.sent):
            call.wait()
            means = flat / dist.get_world_size()
            for p, mean in zip(bucket, means.split([p.numel() for p in bucket])):
                p.grad = mean.view_as(p)
        self.there, self.sent = set(), []
