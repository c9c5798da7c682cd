# hint: [no output]
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])

    def forward(x):
        part_2(part_1(x).to(devices[1]))

    return forward
