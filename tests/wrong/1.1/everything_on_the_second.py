# hint: Everything lies on vgpu:1
def split(model, devices):
    model.to(devices[0])
    model.to(devices[1])
    return lambda x: model(x.to(devices[1]))
