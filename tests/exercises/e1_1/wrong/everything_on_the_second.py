# mistake: Everything lies on devices[1]. Slices of a Sequential can be moved one by
#   one: model[:k].to(devices[0]), model[k:].to(devices[1]).
def split(model, devices):
    model.to(devices[0])
    model.to(devices[1])
    return lambda x: model(x.to(devices[1]))
