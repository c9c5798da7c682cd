class BucketDDP(nn.Module):
    """From the end of a list that gets shorter."""

    def __init__(self, module, cap):
        super().__init__()
        self.module, self.cap = module, cap
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data, src=0)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        rest = [p for p in self.module.parameters() if p.requires_grad]
        while rest:
            bucket = [rest.pop()]
            size = bucket[0].nbytes
            while rest and size + rest[-1].nbytes <= self.cap:
                size += rest[-1].nbytes
                bucket.append(rest.pop())
            grads = []
            for p in bucket:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                grads.append(p.grad.view(-1))
            joined = torch.cat(grads)
            dist.all_reduce(joined)
            joined /= dist.get_world_size()
            for grad, part in zip(grads, joined.split([len(g) for g in grads])):
                grad.copy_(part)
