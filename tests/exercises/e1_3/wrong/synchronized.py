# hint: [held up]
# same as: item_in_between.py
def overlapped(part_1, part_2, devices, x, labels):
    outputs = []
    for part in x.chunk(4):
        outputs.append(part_2(part_1(part).to(devices[1])))
        torch.get_device_module(devices[1]).synchronize(devices[1])
    cross_entropy(torch.cat(outputs), labels).backward()
