# mistake: A pool and mp.spawn send a function by its name, and one of a cell is not
#   found by it. A forked process has it from the start: fork.Process.
def work(number, model, data):
    torch.set_num_threads(1)
    torch.manual_seed(number)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in DataLoader(data, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()


def train(model, data, processes):
    model.zero_grad()
    model.share_memory()
    mp.spawn(work, args=(model, data), nprocs=processes)
