"""A pipeline of two stages by two schedules, with the gradients of the whole model."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import course_lib as cl

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Stage(nn.Module):
    def __init__(self, number):
        super().__init__()
        torch.manual_seed(number)
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))

    def forward(self, x):
        return self.layers(x)


def train(rank, world_size, name, x, y):
    dist.init_process_group("gloo")
    model = Stage(rank)
    stage = PipelineStage(model, rank, world_size, torch.device("cpu"))
    schedule = SCHEDULES[name](stage, 4, loss_fn=nn.functional.mse_loss)
    losses = []
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=y, losses=losses)
    return [p.grad for p in model.parameters()], torch.tensor(losses).mean().item()


x, y = torch.randn(2, 32, 16, generator=torch.Generator().manual_seed(9))
whole = nn.Sequential(Stage(0), Stage(1))
loss = nn.functional.mse_loss(whole(x), y)
loss.backward()
for name in SCHEDULES:
    results = cl.launch(train, name, x, y, world_size=2, trace=True)
    grads = [grad for stage_grads, _ in results for grad in stage_grads]
    for mine, p in zip(grads, whole.parameters(), strict=True):
        torch.testing.assert_close(mine, p.grad)
    assert abs(results[1][1] - loss.item()) < 1e-6
    # four activations go one way, four gradients the other
    for kind in ("send", "recv"):
        sizes = [e.bytes for e in results.trace.select(kind="communicate", name=kind)]
        assert sizes.count(8 * 16 * 4) == 8, sizes
    # of two that meet for a message, one comes first and waits
    assert sum(results.trace.time(rank, "wait") for rank in (0, 1)) > 0
    for rank in (0, 1):
        traffic = results.trace.time(rank, "communicate")
        assert results.trace.overlap(rank) <= traffic + 1e-9
