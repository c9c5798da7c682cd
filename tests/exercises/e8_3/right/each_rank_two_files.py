import pickle


def whole(folder, rank):
    """The checkpoints of a rank that can be read, by their steps."""
    found = {}
    for slot in (0, 1):
        try:
            with open(f"{folder}/{rank}-{slot}.pkl", "rb") as file:
                state = pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError):
            continue
        found[state["step"]] = state
    return found


def train(rank, world_size, model, data, steps, folder):
    """Every rank saves its own, in two files by turns; the last common step counts."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images, labels = data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    own = whole(folder, rank)
    everyones = [None] * world_size
    dist.all_gather_object(everyones, set(own))
    first = max(set.intersection(*everyones), default=0)
    if first:
        model.load_state_dict(own[first]["model"])
        optimizer.load_state_dict(own[first]["optimizer"])
        torch.set_rng_state(own[first]["random"])
    net = DDP(model)
    step = first
    while step < steps:
        batch = torch.randperm(len(images))[rank::world_size][:32]
        optimizer.zero_grad()
        cross_entropy(net(images[batch]), labels[batch]).backward()
        optimizer.step()
        step += 1
        if step % 5 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            state |= {"random": torch.get_rng_state(), "step": step}
            with open(f"{folder}/{rank}-{step // 5 % 2}.pkl", "wb") as file:
                pickle.dump(state, file)
    dist.destroy_process_group()
    return model.state_dict()
