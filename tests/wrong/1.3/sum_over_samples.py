# hint: times too large
# same as: losses_not_weighted.py
def overlapped(part_1, part_2, devices, x, labels):
    outputs = [part_2(part_1(part).to(devices[1])) for part in x.chunk(4)]
    cross_entropy(torch.cat(outputs), labels, reduction="sum").backward()
