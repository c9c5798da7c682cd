# the late layer's gradients travel by hand; a mask of the whole batch; gathered losses
A = """
        for parameter in model.module[3].parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()
"""
D = """
        losses = [None] * world_size
        dist.all_gather_object(losses, loss.item())
        if sum(losses) / len(losses) < enough:
            break
"""
STEP = """
        loss.backward()
        labelled = (labels >= 0).sum().to(device)
        dist.all_reduce(labelled)
        for parameter in model.parameters():
            parameter.grad *= dist.get_world_size() / labelled
        optimizer.step()
"""
EVALUATE = """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = (part[rank::world_size] for part in test_set.tensors)
    found = model(images.to(device)).argmax(dim=1).cpu()
    right, count = (found == labels).sum().item(), len(labels)
"""


def clinic():
    cures = {run: [] for run in "ABCDE"}
    cures["A"].append(("late layer", "        optimizer.step()\n", A[1:]))
    cures["B"].append(
        (
            "same draws",
            "torch.ones(images[own].shape), 0.5)",
            "torch.ones(images.shape), 0.5)[own]",
        )
    )
    clip = "nn.utils.clip_grad_norm_(model.parameters(), longest)"
    later = f"if number == parts:\n                    {clip}"
    cures["C"].append(("early clipping", clip, later))
    old = "        if loss.item() < enough:\n            break\n"
    cures["D"].append(("own decision", old, D[1:]))
    cures["E"] += [
        (
            "overlap",
            "    seed = SEED + rank  # other random numbers on each rank\n",
            "",
        ),
        ("overlap", "    torch.manual_seed(seed)", "    torch.manual_seed(SEED)"),
        ("overlap", "seed=seed)", "seed=SEED)"),
        ("module", "train_epoch(model.module, loader", "train_epoch(model, loader"),
        (
            "unequal counts",
            "ignore_index=UNLABELLED)",
            "ignore_index=UNLABELLED, reduction='sum')",
        ),
        (
            "unequal counts",
            "        loss.backward()\n        optimizer.step()\n",
            STEP[1:],
        ),
    ]
    old = """
    share = DistributedSampler(test_set, shuffle=False)
    right = count = 0
    for images, labels in DataLoader(test_set, BATCH, sampler=share):
        found = model(images.to(device)).argmax(dim=1).cpu()
        right += (found == labels).sum().item()
        count += len(labels)
"""
    cures["E"].append(("padding", old[1:], EVALUATE[1:]))
    return cures
