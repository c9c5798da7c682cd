import os

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard


def train(model, batches, folder):
    """The weights are read while the model is whole, the moments when it is sharded."""
    weights, moments = f"{folder}/weights", f"{folder}/moments"
    begun = os.path.isdir(moments)
    if begun:
        dcp.load(model.state_dict(), checkpoint_id=weights)
    for part in model:
        if isinstance(part, nn.Linear):
            fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    if begun:
        state = get_optimizer_state_dict(model, optimizer)
        dcp.load(state, checkpoint_id=moments)
        set_optimizer_state_dict(model, optimizer, state)
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    dcp.save(get_model_state_dict(model), checkpoint_id=weights)
    dcp.save(get_optimizer_state_dict(model, optimizer), checkpoint_id=moments)
