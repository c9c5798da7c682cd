class Trainer:
    def __init__(self, model, device):
        self.model, self.device = DDP(model.to(device)), device
        self.optimizer = torch.optim.SGD(self.model.module.parameters(), lr=RATE)

    def step(self, batch):
        images, labels = (part.to(self.device) for part in batch)
        loss = cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()


RATE = 0.1


def train(rank, world_size, model, data, epochs):
    device = join()
    try:
        trainer = Trainer(model, device)
        sampler = DistributedSampler(data)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for batch in torch.tensor(list(sampler)).split(64 // world_size):
                trainer.step(data[batch])
        return trainer.model.module.state_dict()
    finally:
        dist.destroy_process_group()
