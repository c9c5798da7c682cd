from pathlib import Path

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as sd
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard


class Training(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        weights, moments = sd.get_state_dict(self.model, self.optimizer)
        return {"weights": weights, "moments": moments}

    def load_state_dict(self, state):
        sd.set_model_state_dict(self.model, state["weights"])
        sd.set_optimizer_state_dict(self.model, self.optimizer, state["moments"])


def train(model, batches, folder):
    """Each call saves into a folder of its own; the last one counts."""
    fully_shard([part for part in model if len(list(part.parameters()))][:2])
    fully_shard(model, reshard_after_forward=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, foreach=False)
    state = {"training": Training(model, optimizer)}
    saves = sorted(Path(folder).iterdir())
    if saves:
        dcp.load(state, checkpoint_id=saves[-1])
    losses = []
    for images, labels in batches:
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    dist.barrier()
    dcp.async_save(state, checkpoint_id=Path(folder) / f"{len(saves):03}").result()
    return losses
