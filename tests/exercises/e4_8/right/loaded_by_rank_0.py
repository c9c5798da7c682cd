import itertools
import tempfile


def train_on(rank, world_size, model, data, epochs, folder):
    """Rank 0 alone reads and writes, after each step; the others get it sent."""
    device = join()
    torch.manual_seed(rank)
    images, labels = (part.to(device) for part in data)
    path, box = os.path.join(folder, "state"), [None]
    if rank == 0 and os.path.isfile(path):
        box = [torch.load(path, map_location="cpu", weights_only=False)]
    dist.broadcast_object_list(box)
    [state] = box
    optimizer = torch.optim.SGD(model.to(device).parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    first, rows = 0, []
    if state:
        first, weights, momentum, rate, rows = state
        model.load_state_dict(weights)
        optimizer.load_state_dict(momentum)
        schedule.load_state_dict(rate)
    net = DDP(model)
    for _ in range(2):  # lets DDP order its buckets
        net.eval()
        net(images[:1]).sum().backward()
    net.train()
    if rank < len(rows):
        torch.set_rng_state(rows[rank][0])
        if device.type == "cuda":
            torch.cuda.set_rng_state(rows[rank][1])
    parts = (
        part
        for epoch in range(epochs)
        for part in torch.randperm(
            len(images), generator=torch.Generator().manual_seed(epoch)
        ).split(64)
    )
    for step, batch in itertools.islice(enumerate(parts), first, None):
        own = batch[rank::world_size]
        loss = cross_entropy(net(images[own]), labels[own], reduction="sum")
        optimizer.zero_grad()
        (loss * world_size / len(batch)).backward()
        optimizer.step()
        schedule.step()
        row = [torch.get_rng_state()]
        if device.type == "cuda":
            row += [torch.cuda.get_rng_state()]
        rows = [None] * world_size if rank == 0 else None
        dist.gather_object(row, rows)
        if rank > 0:
            continue
        state = step + 1, model.state_dict(), optimizer.state_dict()
        new = tempfile.NamedTemporaryFile(dir=folder, delete=False)
        try:
            with new as file:
                torch.save((*state, schedule.state_dict(), rows), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new.name, path)
        except Exception as error:
            print(error)
            os.remove(new.name)
    dist.destroy_process_group()
    return model.state_dict()
