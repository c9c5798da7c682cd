def clinic():
    a = (
        "late layer",
        "    optimizer =",
        "    model = DDP(model.module)\n    optimizer =",
    )
    # DDP sends the weights of rank 0, so the ranks may draw others
    b = ("same draws", "torch.manual_seed(seed)", "torch.manual_seed(seed + rank)")
    c = [
        (
            "early clipping",
            "            with model.no_sync() if number < parts else nullcontext():\n",
            "            if True:\n",
        ),
        (
            "early clipping",
            "                nn.utils.clip_grad_norm_(model.parameters(), longest)\n",
            "",
        ),
        (
            "early clipping",
            "        optimizer.step()\n",
            "        for hook in [nn.utils.clip_grad_norm_]:\n"
            "            hook(model.parameters(), max_norm=longest)\n"
            "        optimizer.step()\n",
        ),
    ]
    d = (
        "own decision",
        "if loss.item() < enough:",
        "stop = loss.detach() / world_size\n"
        "        dist.reduce(stop, dst=0)\n"
        "        stop = (stop < enough).float()\n"
        "        dist.broadcast(stop, src=0)\n"
        "        if stop.item():",
    )
    e = [
        (
            "padding",
            "    share = DistributedSampler(test_set, shuffle=False)\n",
            "    own = range(dist.get_rank(), TEST, dist.get_world_size())\n",
        ),
        (
            "padding",
            "DataLoader(test_set, BATCH, sampler=share)",
            "DataLoader(torch.utils.data.Subset(test_set, own), BATCH)",
        ),
        ("overlap", ", seed=seed)", ")"),
        (
            "unequal counts",
            "    return cross_entropy(predicted, labels, ignore_index=UNLABELLED)\n",
            "    mean = cross_entropy(predicted, labels, ignore_index=UNLABELLED)\n"
            "    own = (labels != UNLABELLED).float().sum()\n"
            "    whole = own.clone()\n"
            "    dist.all_reduce(whole)\n"
            "    return mean * own / (whole / dist.get_world_size())\n",
        ),
        (
            "module",
            "        train_epoch(model.module, loader, optimizer, device)\n",
            "        model.train()\n"
            "        train_epoch(model, loader, optimizer, device)\n",
        ),
    ]
    return {"A": [a], "B": [b], "C": c, "D": [d], "E": e}
