# hint: [apart]
import copy


def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        own = copy.deepcopy(model)
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(own(images), labels).backward()
            before = [p.detach().clone() for p in own.parameters()]
            optimizer.step()
            with torch.no_grad():
                for p, q, old in zip(model.parameters(), own.parameters(), before):
                    p += q - old

    model.share_memory()
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
