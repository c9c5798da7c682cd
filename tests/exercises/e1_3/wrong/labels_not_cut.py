# mistake: Cut the labels like x: labels.chunk(4) goes with x.chunk(4).
def overlapped(part_1, part_2, devices, x, labels):
    losses = []
    for part in x.chunk(4):
        losses.append(cross_entropy(part_2(part_1(part).to(devices[1])), labels) / 4)
    sum(losses).backward()
