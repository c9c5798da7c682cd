# run by: python
# says: Unexpected key(s) in state_dict: "_orig_mod.
import torch
from torch import nn

plain, model, in_place = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)
compiled = torch.compile(model, backend="eager")
in_place.compile(backend="eager")
for each in (compiled, in_place):
    each(torch.ones(3, 2)).sum().backward()
plain.load_state_dict(model.state_dict())
plain.load_state_dict(in_place.state_dict())
plain.load_state_dict(compiled.state_dict())
