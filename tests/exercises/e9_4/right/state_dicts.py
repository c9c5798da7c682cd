import os

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard


def train(model, batches, folder):
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    if os.path.exists(f"{folder}/.metadata"):
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model,
            optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
