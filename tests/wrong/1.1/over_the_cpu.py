# hint: Go straight from one device to the other
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])
    return lambda x: part_2(part_1(x).cpu().to(devices[1]))
