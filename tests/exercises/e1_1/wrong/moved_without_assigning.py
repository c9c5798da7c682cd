# hint: does not move by itself
# same as: not_moved_in_between.py
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])

    def forward(x):
        x1 = part_1(x)
        x1.to(devices[1])
        return part_2(x1)

    return forward
