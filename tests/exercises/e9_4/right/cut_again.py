from pathlib import Path

from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

KINDS = "exp_avg", "exp_avg_sq"


def local(value):
    return value.to_local().cpu() if isinstance(value, DTensor) else value.cpu()


def train(model, batches, folder):
    folder, rank = Path(folder), dist.get_rank()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    named = dict(model.named_parameters())
    if (folder / "ranks").exists():
        count = int((folder / "ranks").read_text())
        saved = [torch.load(folder / f"{one}.pt") for one in range(count)]

        def fill(target, kind, name):
            parts = torch.cat([one[kind][name] for one in saved])
            parts = parts.chunk(dist.get_world_size())
            if rank < len(parts):
                target.to_local().copy_(parts[rank])

        with torch.no_grad():
            for name, p in named.items():
                fill(p, "weights", name)
                state = {kind: torch.zeros_like(p) for kind in KINDS}
                for kind in KINDS:
                    fill(state[kind], kind, name)
                optimizer.state[p] = state | {"step": saved[0]["step"][name]}
            for name, buffer in model.named_buffers():
                buffer.copy_(saved[0]["buffers"][name])
    for images, labels in batches:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    state = {"weights": {n: local(p.detach()) for n, p in named.items()}}
    for kind in (*KINDS, "step"):
        state[kind] = {n: local(optimizer.state[p][kind]) for n, p in named.items()}
    state["buffers"] = dict(model.named_buffers())
    dist.barrier()
    torch.save(state, folder / f"{rank}.pt")
    (folder / "ranks").write_text(str(dist.get_world_size()))
