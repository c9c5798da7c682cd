import json
import os

import numpy
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

NAMES = "weight", "exp_avg", "exp_avg_sq"


def train(model, batches, folder):
    """Each rank writes its rows as numpy arrays, named by the first row."""
    fully_shard(model)
    mesh = next(model.parameters()).device_mesh
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    index = f"{folder}/index.json"
    done = json.load(open(index)) if os.path.exists(index) else {"steps": 0}
    if done["steps"]:
        files = [numpy.load(f"{folder}/{name}") for name in done["files"]]
        for number, p in enumerate(model.parameters()):
            read = {}
            for name in NAMES:
                keys = [(file, f"{number} {name}") for file in files]
                whole = numpy.concatenate([file[key] for file, key in keys])
                whole = torch.from_numpy(whole).to(p.device)
                read[name] = distribute_tensor(whole, mesh, [Shard(0)])
            with torch.no_grad():
                p.copy_(read.pop("weight"))
            optimizer.state[p] = read | {"step": torch.tensor(float(done["steps"]))}
        for name, buffer in model.named_buffers():
            buffer.fill_(done["buffers"][name])
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    arrays = {}
    for number, p in enumerate(model.parameters()):
        state = optimizer.state[p] | {"weight": p.detach()}
        for name in NAMES:
            arrays[f"{number} {name}"] = state[name].to_local().cpu().numpy()
    steps = done["steps"] + len(batches)
    numpy.savez(f"{folder}/{steps}-{rank}.npz", **arrays)
    if rank == 0:
        done = {"steps": steps}
        done["files"] = [f"{steps}-{one}.npz" for one in range(ranks)]
        done["buffers"] = {name: b.item() for name, b in model.named_buffers()}
        json.dump(done, open(index, "w"))
