# hint: wipes out what others did
# same as: copied_back.py
def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            model.zero_grad()
            old = [p.detach().clone() for p in model.parameters()]
            cross_entropy(model(images), labels).backward()
            with torch.no_grad():
                for p, before in zip(model.parameters(), old):
                    p.copy_(before - 0.1 * p.grad)

    model.share_memory()
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
