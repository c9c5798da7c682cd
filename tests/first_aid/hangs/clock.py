# says: backward
# says: waits in barrier
# ruff: noqa: F821  names are those of the test's CELL
def train(rank, world_size):
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(4, 2))
    now = 0.0
    while now < 6.0:
        model(torch.ones(1, 4)).sum().backward()
        now += (2.0, 1.5)[rank]  # the clock of this machine, after a step
    dist.barrier()


cl.launch(train, world_size=2)
