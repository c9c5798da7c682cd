# run by: python
# says: unscale_() has already been called on this optimizer since the last update()
# says: Attempted step but _scale is None
# says: No inf checks were recorded
import traceback

import torch
from torch import nn

x = torch.ones(4, 4)


def fresh():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, optimizer, torch.amp.GradScaler("cpu")


def each_backward():
    model, optimizer, scaler = fresh()
    for part in x.chunk(2):
        scaler.scale(model(part).sum()).backward()
        scaler.unscale_(optimizer)


def last_backward():
    model, optimizer, scaler = fresh()
    for _ in range(2):
        for part in x.chunk(2):
            scaler.scale(model(part).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


def not_scaled():
    model, optimizer, scaler = fresh()
    model(x).sum().backward()
    scaler.step(optimizer)


def no_gradients():
    model, optimizer, scaler = fresh()
    scaler.scale(model(x).sum()).backward()
    optimizer.zero_grad()
    scaler.step(optimizer)


last_backward()
for wrong in (each_backward, not_scaled, no_gradients):
    try:
        wrong()
    except Exception:
        traceback.print_exc()
