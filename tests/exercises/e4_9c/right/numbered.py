import itertools


class BucketDDP(nn.Module):
    """Each parameter gets the number of its bucket."""

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), 0)
        number, size = 0, 0
        self.numbered = []
        for p in filter(lambda p: p.requires_grad, reversed([*module.parameters()])):
            mine = 4 * p.numel()
            if size and size + mine > cap:
                number, size = number + 1, 0
            size += mine
            self.numbered.append((number, p))

    def forward(self, *inputs):
        for _, p in self.numbered:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        return self.module(*inputs)

    def finish(self):
        for _, pairs in itertools.groupby(self.numbered, key=lambda pair: pair[0]):
            grads = [p.grad for _, p in pairs]
            flat = torch.hstack([g.reshape(-1) for g in grads]) / dist.get_world_size()
            dist.all_reduce(flat, op=dist.ReduceOp.SUM)
            for g in grads:
                g.copy_(flat[: g.numel()].reshape(g.shape))
                flat = flat[g.numel() :]
