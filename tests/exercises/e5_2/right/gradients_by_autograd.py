def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        own = list(model.parameters())
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            loss = cross_entropy(model.forward(images), labels)
            gradients = torch.autograd.grad(loss, own)
            with torch.no_grad():
                for parameter, gradient in zip(own, gradients):
                    parameter.sub_(gradient, alpha=0.1)

    model.share_memory()
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
