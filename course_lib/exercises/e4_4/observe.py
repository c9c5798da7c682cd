"""Exercise 4.4, in a rank: steps with accumulated gradients, watched one by one."""

from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.compare import group, state_of
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.counted_work import flops_of


def observe(rank, world_size, answer, given):
    """Return what each step of `answer` does with the micro-batches of this rank."""
    with group(rank, world_size) as device:
        model = DDP(baseline.network(seed=rank).to(device))
        optimizer = given["optimizer"](model.parameters())
        updates, steps = [], {}
        optimizer.register_step_pre_hook(lambda *_: updates.append(1))
        for number, batch in enumerate(given["batches"]):
            own = [part[rank::world_size].chunk(given["parts"]) for part in batch]
            flops = flops_of(list(zip(*own)))
            pairs = [tuple(part.to(device) for part in pair) for pair in zip(*own)]
            updates.clear()
            with Traffic(model.module) as traffic:
                answer(model, optimizer, pairs)
            steps[number] = {
                "weights": state_of(model.module),
                "updates": len(updates),
                "sent": traffic.sent,
                "graphs": traffic.graphs,
                "passes": traffic.passes,
                "flops": traffic.flops.get(str(device), 0),
                "baseline": {"flops": flops},
            }
        return {"steps": steps}
