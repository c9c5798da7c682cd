"""Exercise 4.4, in a rank: steps with accumulated gradients, watched one by one."""

from torch.nn.parallel import DistributedDataParallel as DDP

from course_lib.exercises import baseline
from course_lib.exercises.compare import are_same, gradients_of, group, state_of
from course_lib.exercises.counted_traffic import Traffic
from course_lib.exercises.counted_work import flops_of


def observe(rank, world_size, answer, given):
    """Return what each step of `answer` does with the micro-batches of this rank."""
    with group(rank, world_size) as device:
        model = DDP(baseline.network(seed=rank).to(device))
        optimizer = given["optimizer"](model.parameters())
        updates, steps, module = [], {}, model.module
        # after it, for a closure computes them in the step itself
        optimizer.register_step_post_hook(
            lambda *_: updates.append(gradients_of(module))
        )
        for number, batch in enumerate(given["batches"]):
            own = [part[rank::world_size].chunk(given["parts"]) for part in batch]
            flops = flops_of(list(zip(*own)))
            pairs = [tuple(part.to(device) for part in pair) for pair in zip(*own)]
            updates.clear()
            handed = list(pairs)
            with Traffic(module) as traffic:
                answer(model, optimizer, handed)
            steps[number] = {
                "weights": state_of(module),
                "updates": len(updates),
                "gradients": updates[-1] if updates else {},
                "changed": not are_same(handed, pairs),
                "sent": traffic.sent,
                "graphs": traffic.graphs,
                "passes": traffic.passes,
                "flops": traffic.flops.get(str(device), 0),
                "baseline": {"flops": flops},
            }
        return {"steps": steps}
