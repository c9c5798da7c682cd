# hint: micro-batch by micro-batch
# same as: not_moved.py
def overlapped(part_1, part_2, devices, x, labels):
    outputs = []
    for part in x.chunk(4):
        outputs.append(part_2(part_1(part).to(devices[1])).to(devices[0]))
    cross_entropy(torch.cat(outputs), labels).backward()
