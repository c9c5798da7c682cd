# mistake: Each process goes through the data once: one epoch, no more, no less.
# same as: two_epochs.py
def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        while True:
            for images, labels in DataLoader(data, batch_size=32, shuffle=True):
                optimizer.zero_grad()
                cross_entropy(model(images), labels).backward()
                optimizer.step()

    model.share_memory()
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
