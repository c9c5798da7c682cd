# mistake: A device ran out of memory while your function tried a cut. Trying is fine:
#   catch torch.OutOfMemoryError, and let go of the model each time.
def choose_cut(model, x, budget):
    devices = cl.devices(2, memory=budget)
    model.to(devices[0])
    optimizer = torch.optim.Adam(model.parameters())
    model(x.to(devices[0])).sum().backward()
    optimizer.step()
    return 4
