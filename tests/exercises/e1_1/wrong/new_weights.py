# hint: [output]
def split(model, devices):
    half = len(model) // 2
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])
    return lambda x: part_2(part_1(x).to(devices[1]))
