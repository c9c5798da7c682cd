class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        return cross_entropy(self.model(images), labels, reduction="none")


def parallel_step(model, images, labels, devices):
    losses = nn.DataParallel(Loss(model), device_ids=devices)(images, labels)
    loss = losses.mean()
    loss.backward()
    return loss.item()
