# hint: [late]
def overlapped(part_1, part_2, devices, x, labels):
    came = [part_1(part).to(devices[1]) for part in x.chunk(4)]
    outputs = [part_2(one) for one in came]
    cross_entropy(torch.cat(outputs), labels).backward()
