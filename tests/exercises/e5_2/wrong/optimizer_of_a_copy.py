# mistake: The model is shared, but the optimizers change another one. Give each the
#   parameters of the shared model.
import copy


def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            for p, q in zip(optimizer.param_groups[0]["params"], model.parameters()):
                p.grad = q.grad
            optimizer.step()
            model.zero_grad()

    model.zero_grad()
    model.share_memory()
    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
