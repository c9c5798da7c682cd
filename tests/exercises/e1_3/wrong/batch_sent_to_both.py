# hint: [other bytes]
def overlapped(part_1, part_2, devices, x, labels):
    both = [x.to(device) for device in devices]
    outputs = [part_2(part_1(part).to(devices[1])) for part in both[0].chunk(4)]
    cross_entropy(torch.cat(outputs), labels).backward()
