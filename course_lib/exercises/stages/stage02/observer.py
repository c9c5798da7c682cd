"""What an answer does with a model while it accumulates: passes, graphs, memory."""

from collections.abc import Callable

import torch

from course_lib.exercises.attempt import Wrong
from course_lib.exercises.compare import CLOSE, gap, grads_of, largest, state_of


class Observer:
    """Counts forward passes, the graphs that wait for a backward, and optimizer steps.

    `counts` is plain data: passes in all and away from the device of the model, most
    waiting at once, the largest and the smallest batch, the largest without a graph.
    """

    def __init__(self, model, optimizer=None):
        names = "passes", "waiting", "most", "largest", "steps", "away", "graphless"
        self.device = next(model.parameters()).device
        self.counts = dict.fromkeys(names, 0) | {"device": str(self.device)}
        self.counts["smallest"] = float("inf")
        model.register_forward_hook(self._forward)
        if optimizer is not None:
            optimizer.register_step_post_hook(self._step)

    def _forward(self, _, inputs, output):
        counts = self.counts
        if inputs and not output.requires_grad:
            counts["graphless"] = max(counts["graphless"], len(inputs[0]))
        if output.requires_grad and inputs:
            counts["smallest"] = min(counts["smallest"], len(inputs[0]))
            counts["passes"] += 1
            counts["away"] += output.device != self.device
            counts["waiting"] += 1
            counts["most"] = max(counts["most"], counts["waiting"])
            counts["largest"] = max(counts["largest"], len(inputs[0]))
            output.register_hook(self._backward)

    def _backward(self, _):
        self.counts["waiting"] -= 1

    def _step(self, *_):
        self.counts["steps"] += 1


def one_gpu(memory=None):
    """The device of a check in a rank, and its module; sums in full precision."""
    from course_lib.exercises.device_runs import on_devices

    # CUDA's convolutions round their inputs to 10 bits unless told otherwise
    torch.backends.cudnn.allow_tf32 = False
    [device] = on_devices(1, memory=memory)
    return device, torch.get_device_module(device)


_CUT = (
    "The gradient is right, but the batch is not cut as asked for: `chunk(k)` gives k"
    " pieces, `split(k)` pieces of k samples."
)


def refuse_waste(counts: dict, *, size: int, whole: int, passes: int) -> None:
    """Raise `Wrong` for right gradients that need the memory of a whole batch.

    A micro-batch has at most `size` samples of `whole`, and there are `passes` in all.
    """
    if counts["away"] or not counts["passes"]:
        here = counts["passes"] - counts["away"]
        raise Wrong(
            f"{here} forward passes ran on {counts['device']}, expected {passes}",
            "The gradient is right, but it was computed elsewhere. Leave the model on"
            " its device, and put the micro-batches through it there.",
        )
    if size < counts["largest"] < whole:
        raise Wrong(
            f"{counts['largest']} samples went through the model at once, expected"
            f" {size}",
            _CUT,
        )
    if counts["largest"] > size:
        raise Wrong(
            f"{counts['largest']} samples went through the model at once, expected at"
            f" most {size}",
            "The gradient is right, but this is the memory of a whole batch, which"
            " accumulation saves. Put one micro-batch at a time through the model.",
        )
    if counts["most"] > 1:
        raise Wrong(
            f"{counts['most']} forward passes ran before a backward pass, expected 1",
            "The gradient is right, but the graphs of all micro-batches wait in memory"
            " until backward. Call backward right after each forward: gradients add up"
            " by themselves.",
        )
    if counts["passes"] > passes:
        raise Wrong(
            f"{counts['passes']} forward passes, expected {passes}",
            _CUT,
        )


def left_by(model, start: dict) -> dict:
    """What an answer left in a model: gradients (None if one lacks), weights moved."""
    grads = grads_of(model)
    missing = any(grad is None for grad in grads.values())
    moved = gap(start, state_of(model)) > 0
    return {"grads": None if missing else state_of(grads), "moved": moved}


def judge_gradient(seen: dict, expected: dict, *, where: str, why: Callable) -> None:
    """Compare what `left_by` saw with the gradient that is expected.

    `why` gives the hint for the gradient that was found.
    """
    if seen["grads"] is None:
        raise Wrong(
            f"{where}: there is no gradient in `.grad` of the model's parameters",
            "Call backward for each micro-batch, and leave the gradients there.",
        )
    if seen["moved"]:
        raise Wrong(
            f"{where}: the weights have changed",
            "Only gradients are asked for: no optimizer step here.",
        )
    # relative to the largest entry, for gradients may be small
    off = gap(seen["grads"], expected) / largest(expected)
    if off > CLOSE:
        most = f"{100 * CLOSE:g}\N{NO-BREAK SPACE}%"
        how = f"up to {100 * off:.2f}\N{NO-BREAK SPACE}% off, expected at most {most}"
        if off == float("inf"):
            how = "no number (nan)"
        raise Wrong(f"{where}: the gradient is {how}", why(seen["grads"]))


def why_failed(error) -> str | None:
    """The hint for an answer that raised, or None."""
    text = str(error)
    if "values to unpack" in text:
        return "It is a list of pairs: go through it and unpack one pair at a time."
    if "no attribute 'chunk'" in text or "no attribute 'split'" in text:
        return (
            "A batch is a pair. Cut its images and its labels, then `zip` the pieces."
        )
    if "Expected input batch_size" in text:
        return (
            "A micro-batch has as many labels as images: cut both in the same way, and"
            " pair the pieces with `zip`."
        )
    if "does not require grad" in text:
        return (
            "This loss has no graph, so backward has nowhere to go: detach(), item()"
            " and no_grad() cut it off. Call backward first, detach for logging after."
        )
    if "backward through the graph a second time" in text:
        return (
            "This graph was used up by a backward before. Each micro-batch needs a"
            " forward pass of its own; a running sum of losses brings old graphs back."
        )
    if "no attribute 'backward'" in text:
        return "item() makes a plain number of the loss. Call backward on the tensor."
    if error.kind == "OutOfMemoryError":
        return (
            "More was alive at once than the device holds. Only one micro-batch may be"
            " on its way: forward, backward, then the next one."
        )
    if "Expected all tensors to be on the same device" in text:
        return (
            "The model is on a device of its own: move each micro-batch there,"
            " `images.to(device)`."
        )
    return None
