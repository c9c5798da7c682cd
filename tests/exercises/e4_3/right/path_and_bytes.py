import io
from pathlib import Path

from torch import save


def evaluate_and_save(rank, model, data, path):
    """Saved by a name of its own into memory, then written as bytes."""
    device = next(model.parameters()).device
    if rank == 0:
        memory = io.BytesIO()
        save(model.module.state_dict(), memory)
        Path(path).write_bytes(memory.getvalue())
    dist.barrier()
    with open(path, "rb") as file:
        model.module.load_state_dict(torch.load(file, map_location=device))
    model.module.eval()
    share = torch.tensor(0.0, device=device)
    if rank == 0:
        with torch.no_grad():
            for image, label in data:
                guess = model.module(image[None].to(device)).argmax().item()
                share += guess == label.item()
        share /= len(data)
    dist.all_reduce(share)
    model.module.train()
    return share
