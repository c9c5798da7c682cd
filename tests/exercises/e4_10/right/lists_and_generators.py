# lists for tuples, a head of its own, a generator for the masks
def clinic():
    return {
        "A": [
            [
                "late layer",
                "    model = nn.Sequential("
                "nn.Flatten(), nn.Linear(64, 32), nn.ReLU())\n"
                "    model = DDP(model.to(device))\n"
                "    model.module.append(nn.Linear(32, 10).to(device))\n",
                "    head = nn.Linear(32, 10)\n"
                "    model = nn.Sequential(\n"
                "        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), head\n"
                "    )\n"
                "    model = DDP(model.to(device))\n",
            ]
        ],
        "B": [
            [
                "same draws",
                "    masks = []\n",
                "    masks = []\n"
                "    draws = torch.Generator().manual_seed(1000 * seed + rank)\n",
            ],
            [
                "same draws",
                "nn.functional.dropout(torch.ones(images[own].shape), 0.5)",
                "2 * (torch.rand(images[own].shape, generator=draws) < 0.5).float()",
            ],
        ],
        "C": [
            [
                "early clipping",
                "                nn.utils.clip_grad_norm_"
                "(model.parameters(), longest)\n"
                "        optimizer.step()",
                "        torch.nn.utils.clip_grad_norm_"
                "(model.module.parameters(), longest)\n"
                "        optimizer.step()",
            ]
        ],
        "D": [
            [
                "own decision",
                "        loss.backward()\n",
                "        loss.backward()\n"
                "        with torch.no_grad():\n"
                "            dist.all_reduce(loss)\n"
                "            loss /= world_size\n",
            ]
        ],
        "E": [
            ["module", "train_epoch(model.module,", "train_epoch(model,"],
            ["overlap", "seed = SEED + rank", "seed = SEED"],
            [
                "unequal counts",
                "        loss = loss_of(model(images.to(device)), labels.to(device))\n",
                "        counts = [None] * dist.get_world_size()\n"
                "        dist.all_gather_object(counts, (labels >= 0).sum().item())\n"
                "        own, ranks = counts[dist.get_rank()], len(counts)\n"
                "        loss = loss_of(model(images.to(device)), labels.to(device))\n"
                "        loss = loss * own * ranks / sum(counts)\n",
            ],
            [
                "padding",
                "        count += len(labels)\n"
                "    sums = torch.tensor([right, count], device=device)\n",
                "        count += len(labels)\n"
                "    # the last samples of the last ranks are the first ones again\n"
                "    more = share.total_size - len(test_set)\n"
                "    if share.rank >= share.num_replicas - more:\n"
                "        right -= (found == labels)[-1].item()\n"
                "        count -= 1\n"
                "    sums = torch.tensor([right, count], device=device)\n",
            ],
        ],
    }
