# hint: [whole batch]
def overlapped(part_1, part_2, devices, x, labels):
    cross_entropy(part_2(part_1(x).to(devices[1])), labels).backward()
