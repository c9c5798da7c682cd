# hint: [other lengths]
def overlapped(part_1, part_2, devices, x, labels):
    losses = []
    for part, target in zip(x.chunk(5), labels.chunk(5)):
        output = part_2(part_1(part).to(devices[1]))
        losses.append(cross_entropy(output, target) / 5)
    sum(losses).backward()
