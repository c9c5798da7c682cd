class Halves(nn.Module):
    def __init__(self, model, devices):
        super().__init__()
        self.devices = devices
        layers = list(model)
        half = len(layers) // 2
        self.first = nn.Sequential(*layers[:half]).to(devices[0])
        self.second = nn.Sequential(*layers[half:]).to(devices[1])

    def forward(self, x):
        return self.second(self.first(x.to(self.devices[0])).to(self.devices[1]))


def split(model, devices):
    return Halves(model, devices)
