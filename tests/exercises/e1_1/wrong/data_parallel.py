# mistake: Everything lies on devices[0]. nn.DataParallel splits the samples and copies
#   the weights in every forward; here the layers are split: model[:k].to(devices[0]),
#   model[k:].to(devices[1]).
def split(model, devices):
    return nn.DataParallel(model.to(devices[0]), devices)
