# run by: file
# says: Weights only load failed
# says: Unsupported global: GLOBAL
from dataclasses import asdict, dataclass

import torch
from torch import nn


@dataclass
class Config:
    width: int = 4


model, config = nn.Linear(4, 2), Config()
torch.save({"model": model.state_dict(), "config": asdict(config)}, "dicts.pt")
assert torch.load("dicts.pt")["config"] == {"width": 4}
torch.save({"model": model.state_dict(), "config": config}, "objects.pt")
assert torch.load("objects.pt", weights_only=False)["config"] == config
torch.load("objects.pt")
