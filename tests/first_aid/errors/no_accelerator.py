# run by: python
# says: 'NoneType' object has no attribute 'type'
# says: at start of device string: None
import traceback

import torch

accelerator = torch.accelerator.current_accelerator(check_available=True)
for ask in (lambda: accelerator.type, lambda: torch.device(f"{accelerator}:0")):
    try:
        ask()
    except Exception:
        traceback.print_exc()
