# hint: [other copies]
# same as: to_and_fro.py
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])

    def forward(x):
        both = [x.to(device) for device in devices]
        return part_2(part_1(both[0]).to(devices[1]))

    return forward
