# mistake: Each device holds the whole model: that saves nothing. Move only the part
#   that the device needs.
import copy


def split(model, devices):
    half = len(model) // 2
    models = [copy.deepcopy(model).to(device) for device in devices]
    return lambda x: models[1][half:](models[0][:half](x).to(devices[1]))
