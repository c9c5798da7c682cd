import shutil

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException


def train_on(rank, world_size, model, data, epochs, folder):
    """Each rank writes its part by DCP; a folder gets its name when all have."""
    device = join()
    torch.manual_seed(rank)
    images, labels = (part.to(device) for part in data)
    net = DDP(model.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)

    def random_state():
        both = {f"cpu{rank}": torch.get_rng_state()}
        if device.type == "cuda":
            both[f"cuda{rank}"] = torch.cuda.get_rng_state()
        return both

    def step_of(name):
        return int(name.removeprefix("step-"))

    whole = [name for name in os.listdir(folder) if name.startswith("step-")]
    newest = max(whole, key=step_of, default=None)
    done = 0
    if newest:
        path = os.path.join(folder, newest)
        # the optimizer makes its momentum in its first step
        momentum = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
        state = {"model": model.state_dict(), "momentum": momentum}
        known = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
        state |= {name: part for name, part in random_state().items() if name in known}
        state |= {"schedule": schedule.state_dict()}
        dcp.load(state, checkpoint_id=path)
        for name, parameter in model.named_parameters():
            optimizer.state[parameter]["momentum_buffer"] = momentum[name]
        schedule.load_state_dict(state["schedule"])
        optimizer.param_groups[0]["lr"] = schedule.get_last_lr()[0]
        if f"cpu{rank}" in state:
            torch.set_rng_state(state[f"cpu{rank}"])
        if f"cuda{rank}" in state:
            torch.cuda.set_rng_state(state[f"cuda{rank}"])
        done = step_of(newest)

    def save(step):
        momentum = {
            name: optimizer.state[p]["momentum_buffer"]
            for name, p in model.named_parameters()
        }
        state = {"model": model.state_dict(), "momentum": momentum}
        state |= {"schedule": schedule.state_dict(), **random_state()}
        part = os.path.join(folder, "part")
        try:
            if rank == 0:
                shutil.rmtree(part, ignore_errors=True)
            dist.barrier()
            dcp.save(state, checkpoint_id=part)
            if rank == 0:
                os.rename(part, os.path.join(folder, f"step-{step}"))
        except (OSError, RuntimeError, CheckpointException):
            if rank == 0:
                print("not saved")

    step = 0
    for epoch in range(epochs):
        chance = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(images), generator=chance)
        for batch in order.split(64):
            step += 1
            if step <= done:
                continue
            own = batch[rank::world_size]
            loss = cross_entropy(net(images[own]), labels[own], reduction="sum")
            optimizer.zero_grad()
            (loss * world_size / len(batch)).backward()
            optimizer.step()
            schedule.step()
            if step % 3 == 0:
                save(step)
    dist.destroy_process_group()
    return model.state_dict()
