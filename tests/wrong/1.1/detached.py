# hint: The copy must stay part of the graph
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])
    return lambda x: part_2(part_1(x).detach().to(devices[1]))
