# run by: python
# says: Disabling autocast
# says: GradScaler is enabled, but CUDA is not available
# says: no accelerator is found, then device pinned memory won't be used
import torch
from torch.utils.data import DataLoader

with torch.autocast("cuda"):
    torch.amp.GradScaler("cuda")
print(list(DataLoader(torch.ones(2), pin_memory=True)))
