import copy


def split(model, devices):
    half = len(model) // 2
    first = copy.deepcopy(model[:half]).to(devices[0])
    second = copy.deepcopy(model[half:]).to(devices[1])

    def forward(x):
        print("forward")
        return second(first(x).to(devices[1]))

    return forward
