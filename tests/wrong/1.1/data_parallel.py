# hint: Everything lies on vgpu:0
# same as: everything_on_the_first.py
def split(model, devices):
    return nn.DataParallel(model.to(devices[0]), devices)
