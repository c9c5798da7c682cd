# hint: [other copies]
# same as: to_and_fro.py
def split(model, devices):
    places = [devices[number // 2 % 2] for number in range(len(model))]
    for layer, place in zip(model, places):
        layer.to(place)

    def forward(x):
        for layer, place in zip(model, places):
            x = layer(x.to(place))
        return x

    return forward
