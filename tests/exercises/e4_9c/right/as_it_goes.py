class BucketDDP(nn.Module):
    """A bucket is sent when the next gradient does not fit."""

    def __init__(self, module, cap):
        super().__init__()
        self.module, self.cap = module, cap
        for value in (*map(torch.detach, module.parameters()), *module.buffers()):
            dist.broadcast(value, src=0)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        waiting = []
        for p in list(self.module.parameters())[::-1]:
            if p.requires_grad:
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
                if (
                    waiting
                    and sum(g.nbytes for g in waiting) + p.grad.nbytes > self.cap
                ):
                    self.send(waiting)
                    waiting = []
                waiting.append(p.grad)
        self.send(waiting)

    def send(self, grads):
        flat = torch.nn.utils.parameters_to_vector(grads)
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        torch.nn.utils.vector_to_parameters(flat, grads)
        self.sent = len(grads)
