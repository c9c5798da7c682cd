# hint: Return something that can be called with x
def split(model, devices):
    half = len(model) // 2
    return model[:half].to(devices[0]), model[half:].to(devices[1])
