# hint: Move both parts in split itself
def split(model, devices):
    half = len(model) // 2

    def forward(x):
        x1 = model[:half].to(devices[0])(x)
        return model[half:].to(devices[1])(x1.to(devices[1]))

    return forward
