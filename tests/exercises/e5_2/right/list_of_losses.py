def train(model, data, processes):
    def work(seed):
        torch.set_num_threads(1)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
        images, labels = data.tensors
        for part in order.split(32):
            model.zero_grad()
            loss = torch.nn.functional.nll_loss(
                model(images[part]).log_softmax(1), labels[part]
            )
            torch.autograd.backward([loss])
            for parameter in model.parameters():
                parameter.data.add_(parameter.grad, alpha=-0.1)

    model.share_memory()
    workers = [
        mp.Process(target=work, args=(n,), daemon=True) for n in range(processes)
    ]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    return model
