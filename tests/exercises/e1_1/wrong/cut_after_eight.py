# hint: [held]
def split(model, devices):
    part_1, part_2 = model[:8].to(devices[0]), model[8:].to(devices[1])
    return lambda x: part_2(part_1(x).to(devices[1]))
