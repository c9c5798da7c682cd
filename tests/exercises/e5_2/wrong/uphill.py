# hint: [other steps]
# same as: momentum.py
def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            model.zero_grad()
            cross_entropy(model(images), labels).backward()
            for p in model.parameters():
                p.data += 0.1 * p.grad

    model.share_memory()
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
