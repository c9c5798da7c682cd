"""What a rank prints: the log lines that the notebook asked for, bars, no warnings."""

import logging
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from tqdm.notebook import tqdm, trange

import course_lib as cl


def log(rank, world_size):
    logging.info("rank %d of %d", rank, world_size)
    logging.debug("not asked for")
    logging.getLogger("data").warning("few samples")
    return logging.getLogger().level


def bars(rank, world_size):
    import tqdm.notebook

    for _ in tqdm.notebook.tqdm(range(3), desc="module"):
        pass
    for _ in trange(3, desc="range"):
        pass


def also_bars(rank, world_size):
    for _ in tqdm(range(3), desc="class"):
        pass


def joined(rank, world_size):
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    with model.join():  # it asks for all warnings
        model(torch.ones(1, 4)).sum().backward()


def warned(rank, world_size):
    warnings.simplefilter("always")
    open("/dev/null")  # and this one is the learner's


# as if no cell had asked for log lines: warnings alone are shown
root = logging.getLogger()
before = root.level, root.handlers[:]
root.handlers[:] = []
root.setLevel(logging.WARNING)
run = cl.launch(log, world_size=1)
assert (run[0], "few samples" in run.output[0]) == (logging.WARNING, True)
assert "rank 0" not in run.output[0]

for form, style in (
    ("%(levelname)s: %(message)s", "%"),
    ("{levelname}: {message}", "{"),
):
    logging.basicConfig(level=logging.INFO, format=form, style=style, force=True)
    run = cl.launch(log, world_size=2)
    assert list(run) == [logging.INFO] * 2
    told = [f"INFO: rank {rank} of 2\nWARNING: few samples\n" for rank in range(2)]
    assert list(run.output) == told, run.output
root.handlers[:] = before[1]
root.setLevel(before[0])

run = cl.launch(bars, world_size=2)
for output in run.output:
    assert "module: 100%" in output and "range: 100%" in output and "3/3" in output
assert "class: 100%" in cl.launch(also_bars, world_size=1).output[0]

for trace in (False, True):
    assert list(cl.launch(joined, world_size=2, trace=trace).output) == ["", ""]
run = cl.launch(warned, world_size=1)
assert run.output[0].count("ResourceWarning: unclosed file") == 1, run.output
