# run by: ranks
# says: Missing key(s) in state_dict: "module.weight
# says: Unexpected key(s) in state_dict: "module.weight
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
plain = nn.Linear(2, 1)
model = DDP(nn.Linear(2, 1))
model.module.load_state_dict(plain.state_dict())
for target, source in ((model, plain), (plain, model)):
    try:
        target.load_state_dict(source.state_dict())
    except RuntimeError as error:
        print(error)
