# the same with padding or masks, though batches are equally long
# ruff: noqa: F821  names are those of the test's PRELUDE
logits = torch.arange(24.0).reshape(2, 4, 3).sin()
wanted = torch.tensor([[0, 1, 2, 0], [1, -100, -100, -100]])
labels = wanted[rank]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.scale


model = DDP(Scaled())
cross_entropy(model(logits[rank]), labels).backward()
wrong = model.module.scale.grad.clone()

dist.all_gather_object(seen, (labels != -100).sum().item())
assert seen == [4, 1]
model.zero_grad()
loss = cross_entropy(model(logits[rank]), labels, reduction="sum")
(loss * world_size / sum(seen)).backward()

single = Scaled()
cross_entropy(single(logits).flatten(0, 1), wanted.flatten()).backward()
assert_close(model.module.scale.grad, single.scale.grad)
assert (wrong - single.scale.grad).abs().max() > 0.01
