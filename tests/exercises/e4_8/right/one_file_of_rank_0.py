def train_on(rank, world_size, model, data, epochs, folder):
    device = join()
    torch.manual_seed(rank)
    images, labels = (part.to(device) for part in data)
    net = DDP(model.to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    path, done, step = os.path.join(folder, "checkpoint.pt"), 0, 0
    if os.path.exists(path):
        state = torch.load(path, map_location="cpu")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        done = state["done"]
        if rank < len(state["random"]):  # else there was no such rank
            cpu, *cuda = state["random"][rank]
            torch.set_rng_state(cpu)
            for numbers in cuda:
                torch.cuda.set_rng_state(numbers)
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
            if step % 3:
                continue
            random = [torch.get_rng_state()]
            if device.type == "cuda":
                random.append(torch.cuda.get_rng_state())
            every = [None] * world_size
            dist.all_gather_object(every, random)
            if rank == 0:
                state = {name: part.state_dict() for name, part in parts.items()}
                try:
                    torch.save(state | {"done": step, "random": every}, path + ".part")
                    os.replace(path + ".part", path)
                except (OSError, RuntimeError) as error:
                    print(f"not saved, the file before stays: {error}")
    dist.destroy_process_group()
    return model.state_dict()
