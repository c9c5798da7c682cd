def clinic():
    return {
        "A": [
            (
                "late layer",
                "    model = DDP(model.to(device))\n"
                "    model.module.append(nn.Linear(32, 10).to(device))",
                "    model.append(nn.Linear(32, 10))\n"
                "    model = DDP(model.to(device))",
            )
        ],
        "B": [
            (
                "same draws",
                "    masks = []",
                "    torch.manual_seed(seed + rank)\n    masks = []",
            )
        ],
        "C": [
            (
                "early clipping",
                "                nn.utils.clip_grad_norm_",
                "        nn.utils.clip_grad_norm_",
            )
        ],
        "D": [
            (
                "own decision",
                "        if loss.item() < enough:",
                "        mean = loss.detach().clone()\n"
                "        dist.all_reduce(mean)\n"
                "        if mean.item() / world_size < enough:",
            )
        ],
        "E": [
            ("overlap", "train_set, seed=seed", "train_set, seed=SEED"),
            ("module", "train_epoch(model.module,", "train_epoch(model,"),
            (
                "unequal counts",
                "    return cross_entropy(predicted, labels, ignore_index=UNLABELLED)",
                "    count = (labels != UNLABELLED).sum()\n"
                "    dist.all_reduce(count)\n"
                "    loss = cross_entropy(predicted, labels, reduction='sum')\n"
                "    return loss * dist.get_world_size() / count",
            ),
            (
                "padding",
                "DistributedSampler(test_set, shuffle=False)",
                "range(dist.get_rank(), len(test_set), dist.get_world_size())",
            ),
        ],
    }
