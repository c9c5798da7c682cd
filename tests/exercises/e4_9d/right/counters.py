from functools import partial


class Bucket:
    """Counts what is missing; divides before it sends; in place where it can."""

    def __init__(self):
        self.params, self.bytes, self.missing = [], 0, 0
        self.flat = self.handle = None

    def send(self):
        for p in self.params:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        parts = [p.grad.reshape(-1) for p in self.params]
        self.flat = parts[0] if len(parts) == 1 else torch.cat(parts)
        self.flat /= dist.get_world_size()
        self.handle = dist.all_reduce(self.flat, async_op=True)

    def scatter(self):
        start = 0
        for p in self.params:
            mean = self.flat[start : start + p.numel()]
            if len(self.params) > 1:
                p.grad.copy_(mean.reshape(p.shape))
            start += p.numel()


class EarlyDDP(nn.Module):
    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor.data, 0)
        self.order = [Bucket()]
        trainable = [p for p in module.parameters() if p.requires_grad]
        for p in trainable[::-1]:
            bucket = self.order[-1]
            if bucket.params and bucket.bytes + p.nbytes > cap:
                bucket = Bucket()
                self.order.append(bucket)
            bucket.params.append(p)
            bucket.bytes += p.nbytes
            p.register_post_accumulate_grad_hook(partial(self._ready, bucket))
        self._reset()

    def _reset(self):
        self.next = 0
        for bucket in self.order:
            bucket.missing = len(bucket.params)

    def _ready(self, bucket, _):
        bucket.missing -= 1
        while self.next < len(self.order) and self.order[self.next].missing == 0:
            self.order[self.next].send()
            self.next += 1

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for late in self.order[self.next :]:
            late.send()
        for bucket in self.order:
            bucket.handle.wait()
        for bucket in self.order:
            bucket.scatter()
        self._reset()
