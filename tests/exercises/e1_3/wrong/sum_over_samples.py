# mistake: This looks like a sum over all 2,048 samples, not a mean.
def overlapped(part_1, part_2, devices, x, labels):
    outputs = [part_2(part_1(part).to(devices[1])) for part in x.chunk(4)]
    cross_entropy(torch.cat(outputs), labels, reduction="sum").backward()
