# hint: [gradient]
# same as: detached.py
def split(model, devices):
    half = len(model) // 2
    part_1 = model[:half].to(devices[0])
    part_2 = model[half:].to(devices[1])

    @torch.no_grad()
    def forward(x):
        return part_2(part_1(x).to(devices[1]))

    return forward
