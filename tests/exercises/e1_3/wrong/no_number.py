# hint: Is a number divided by 0
def overlapped(part_1, part_2, devices, x, labels):
    losses, done = [], torch.tensor(0.0, device=devices[1])
    for part, target in zip(x.chunk(4), labels.chunk(4)):
        output = part_2(part_1(part).to(devices[1]))
        losses.append(cross_entropy(output, target) * done / done)
        done = done + len(part)
    (sum(losses) / 4).backward()
