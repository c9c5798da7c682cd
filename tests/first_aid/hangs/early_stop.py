# says: backward
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
def train(rank, world_size):
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(4, 2))
    losses = [[3.0, 2.0, 1.0, 0.5], [3.0, 2.0, 2.5, 0.5]][rank]
    for epoch in range(4):
        model(torch.ones(1, 4)).sum().backward()
        if epoch and losses[epoch] > losses[epoch - 1]:
            break
    dist.barrier()


cl.launch(train, world_size=2)
