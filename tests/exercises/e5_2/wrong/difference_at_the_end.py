# hint: [late]
import copy


def train(model, data, processes):
    model.share_memory()

    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        own = copy.deepcopy(model)
        start = [p.detach().clone() for p in own.parameters()]
        train_alone(own, data)
        with torch.no_grad():
            for shared, mine, old in zip(model.parameters(), own.parameters(), start):
                shared += mine - old

    workers = [mp.Process(target=work, args=(n,)) for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
