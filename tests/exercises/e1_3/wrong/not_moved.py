# mistake: Tensors of two devices meet: move what part_1 returns to devices[1],
#   micro-batch by micro-batch.
def overlapped(part_1, part_2, devices, x, labels):
    outputs = [part_2(part_1(part)) for part in x.chunk(4)]
    cross_entropy(torch.cat(outputs), labels).backward()
