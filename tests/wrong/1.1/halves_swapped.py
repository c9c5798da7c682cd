# hint: The two halves have changed places
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[1])
    part_2 = model[half:].to(devices[0])
    return lambda x: part_2(part_1(x.to(devices[1])).to(devices[0]))
