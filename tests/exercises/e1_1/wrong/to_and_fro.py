# hint: [other copies]
def split(model, devices):
    half = len(model) // 2
    places = [devices[number >= half] for number in range(len(model))]
    for layer, place in zip(model, places):
        layer.to(place)

    def forward(x):
        for layer, place in zip(model, places):
            x = layer(x.to(place)).to(devices[0])
        return x.to(devices[1])

    return forward
