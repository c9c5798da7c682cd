# hint: [other number]
def train(model, data, processes):
    def work(number):
        torch.set_num_threads(1)
        torch.manual_seed(number)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for images, labels in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    model.share_memory()
    for number in range(processes):
        work(number)
