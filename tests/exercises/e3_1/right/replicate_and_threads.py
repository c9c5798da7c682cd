from torch.nn.parallel import parallel_apply, replicate, scatter


class Losses(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        return cross_entropy(self.model(images), labels, reduction="sum")


def parallel_step(model, images, labels, devices):
    chunks = scatter((images, labels), devices)
    replicas = replicate(Losses(model), devices[: len(chunks)])
    sums = parallel_apply(replicas, chunks)
    loss = sum(one.to(devices[0]) for one in sums) / len(images)
    loss.backward()
    return loss
