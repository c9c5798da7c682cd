# hint: [behind]
# same as: launched_one_late.py
def overlapped(part_1, part_2, devices, x, labels):
    outputs = []
    parts = x.chunk(4)
    for pair in (parts[:2], parts[2:]):
        moved = [part_1(part).to(devices[1]) for part in pair]
        outputs += [part_2(m) for m in moved]
    cross_entropy(torch.cat(outputs), labels).backward()
