# mistake: They are too small: the loss is divided more often than once by the number
#   of micro-batches.
def overlapped(part_1, part_2, devices, x, labels):
    losses = []
    for part, target in zip(x.chunk(4), labels.chunk(4)):
        output = part_2(part_1(part).to(devices[1]))
        losses.append(cross_entropy(output, target) / 4)
    (sum(losses) / 4).backward()
