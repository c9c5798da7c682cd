class BucketDDP(nn.Module):
    """Buckets are planned once."""

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data, src=0)
        self.buckets, size = [], cap
        trained = [p for p in module.parameters() if p.requires_grad]
        for p in reversed(trained):
            if not self.buckets or size + p.nbytes > cap:
                self.buckets.append([])
                size = 0
            self.buckets[-1].append(p)
            size += p.nbytes

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for bucket in self.buckets:
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
            flat = torch.cat([grad.flatten() for grad in grads])
            dist.all_reduce(flat)
            flat /= dist.get_world_size()
            for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
                p.grad = part.view_as(p)
