from torch.autograd.graph import register_multi_grad_hook


class EarlyDDP(nn.Module):
    """One hook for each bucket, and futures; the gradients are those of the hook."""

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        self._start_equal()
        self.buckets = self._cut(
            [p for p in module.parameters() if p.requires_grad], cap
        )
        self.full, self.flying = {}, []
        for index, bucket in enumerate(self.buckets):
            register_multi_grad_hook(bucket, self._hook(index))

    def _start_equal(self):
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)

    @staticmethod
    def _cut(params, cap):
        buckets, current, size = [], [], 0
        while params:
            p = params.pop()
            if current and size + p.nbytes > cap:
                buckets.append(current)
                current, size = [], 0
            current.append(p)
            size += p.nbytes
        return [*buckets, current]

    def _hook(self, index):
        def hook(gradients):
            self.full[index] = gradients
            while len(self.flying) in self.full:
                self._send(self.full[len(self.flying)])

        return hook

    def _send(self, gradients):
        bucket = self.buckets[len(self.flying)]
        pairs = zip(gradients, bucket)
        flat = torch.cat([(0 * p if g is None else g).flatten() for g, p in pairs])
        future = dist.all_reduce(flat.detach(), async_op=True).get_future()
        self.flying.append((flat.detach(), future))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        while len(self.flying) < len(self.buckets):
            bucket = self.buckets[len(self.flying)]
            self._send(self.full.get(len(self.flying), [p.grad for p in bucket]))
        for bucket, (flat, future) in zip(self.buckets, self.flying):
            future.wait()
            for p, mean in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = mean.reshape(p.shape) / dist.get_world_size()
        self.full, self.flying = {}, []
