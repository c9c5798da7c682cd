def train(model, data, processes):
    def work(number):
        torch.manual_seed(number)
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    model.share_memory()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.set_num_threads(1)
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
