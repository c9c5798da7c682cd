import os

import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard


def train(model, batches, folder):
    """AdamW gets a state to load into by a step of length 0."""
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    if os.listdir(folder):
        optimizer.param_groups[0]["lr"] = 0.0
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 0.001
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, overwrite=True))
