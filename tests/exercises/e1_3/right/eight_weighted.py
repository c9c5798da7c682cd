def overlapped(part_1, part_2, devices, x, labels):
    for parameter in [*part_1.parameters(), *part_2.parameters()]:
        parameter.grad = None
    losses = []
    for i in range(5):
        part, target = x[i::5], labels[i::5]
        output = part_2(part_1(part).to(devices[1]))
        losses.append(cross_entropy(output, target) * len(part) / len(x))
    torch.stack(losses).sum().backward()
