# hint: [many]
# same as: sixty_four.py
def overlapped(part_1, part_2, devices, x, labels):
    outputs = [part_2(part_1(part).to(devices[1])) for part in x.chunk(16)]
    cross_entropy(torch.cat(outputs), labels).backward()
