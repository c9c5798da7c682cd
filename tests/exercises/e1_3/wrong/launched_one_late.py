# hint: [behind]
def overlapped(part_1, part_2, devices, x, labels):
    outputs = []
    parts = x.chunk(4)
    before = None
    for part in parts:
        hidden = part_1(part)
        if before is not None:
            outputs.append(part_2(before.to(devices[1])))
        before = hidden
    outputs.append(part_2(before.to(devices[1])))
    cross_entropy(torch.cat(outputs), labels).backward()
