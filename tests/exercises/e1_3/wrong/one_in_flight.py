# hint: [turns]
# same as: backward_in_the_loop.py
def overlapped(part_1, part_2, devices, x, labels):
    waiting = None
    for part, target in zip(x.chunk(4), labels.chunk(4)):
        output = part_2(part_1(part).to(devices[1]))
        loss = cross_entropy(output, target) / 4
        if waiting is not None:
            waiting.backward()
        waiting = loss
    waiting.backward()
