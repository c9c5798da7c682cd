# hint: [turns]
def overlapped(part_1, part_2, devices, x, labels):
    for part, target in zip(x.chunk(4), labels.chunk(4)):
        output = part_2(part_1(part).to(devices[1]))
        (cross_entropy(output, target) / 4).backward()
