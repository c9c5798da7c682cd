# hint: Something is still on the CPU
def split(model, devices):
    half = len(model) // 2
    part_1, part_2 = model[:half].to(devices[0]), model[half:]
    return lambda x: part_2(part_1(x).to(devices[1]))
