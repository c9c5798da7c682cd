# hint: does not move by itself
# same as: not_moved_in_between.py
def split(model, devices):
    half = len(model) // 2
    model[:half].to(devices[0])
    model[half:].to(devices[1])
    return model
