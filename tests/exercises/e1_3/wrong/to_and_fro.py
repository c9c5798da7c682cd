# hint: [other bytes]
# same as: batch_sent_to_both.py
def overlapped(part_1, part_2, devices, x, labels):
    outputs = []
    for part in x.chunk(4):
        for layer in part_1:
            part = layer(part.to(devices[0])).to(devices[1])
        outputs.append(part_2(part))
    cross_entropy(torch.cat(outputs), labels).backward()
