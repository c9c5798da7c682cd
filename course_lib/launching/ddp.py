"""What errors of DistributedDataParallel mean, with the names of parameters.

PyTorch's texts count parameters. Their names are known where the model is: in the rank.
"""

import re
import sys
from collections.abc import Iterator

_UNUSED = "Expected to have finished reduction in the prior iteration"
_TWICE = "Expected to mark a variable ready only once"
_UNLIKE = "appears not to match"
_COUNTS = "DDP expects same model across all ranks"
_NO_ATTRIBUTE = "'DistributedDataParallel' object has no attribute"
_MOST = 6  # names


def hints(error: BaseException, text: str) -> Iterator[str]:
    """Yield what helps against an error of DDP, whose message is `text`."""
    model = _innermost(error)
    if _NO_ATTRIBUTE in text:
        name = text.rpartition("attribute ")[2].strip("'")
        yield f"DDP wraps the model, which is its .module: net.module.{name}."
    elif _UNUSED in text:
        yield from _unused(text, model)
    elif _TWICE in text:
        yield from _twice(text, model)
    elif _UNLIKE in text or _COUNTS in text:
        yield from _unlike(text, model)


def _unused(text, model):
    found = re.search(r"did not receive grad for rank \d+: ([\d ]+)", text)
    names = _named(model, map(int, found[1].split())) if found else ""
    these = f"Without a gradient: {names}. " if names else ""
    yield (
        f"{these}DDP waits for the gradient of each parameter. Leave the unused ones"
        " out of the model, or set requires_grad_(False) before DDP(…), or let their"
        " output take part in the loss. Where it differs from step to step which are"
        " used: DDP(…, find_unused_parameters=True)."
    )


def _twice(text, model):
    found = re.search(r"Parameter at index (\d+)", text)
    names = _named(model, [int(found[1])]) if found else ""
    this = f"Ready twice: {names}. " if names else ""
    yield (
        f"{this}A layer that is recomputed wants checkpoint(…, use_reentrant=False)."
        " One that is used twice in a forward, or in two forwards before a backward,"
        " wants DDP(…, static_graph=True), if each step uses the same layers."
    )


def _unlike(text, model):
    found = re.search(r"params\[(\d+)\] in this process", text)
    names = _named(model, [int(found[1])]) if found else ""
    this = f"That is {names}. " if names else ""
    yield f"{this}All ranks must wrap the same model, whose sizes depend on no rank."


def _innermost(error):
    """Return the innermost DDP that a function of the traceback holds, or None."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    step, model = error.__traceback__, None
    while parallel and step:
        for value in step.tb_frame.f_locals.values():
            if isinstance(value, parallel.DistributedDataParallel):
                model = value
        step = step.tb_next
    return model


def _named(model, indices):
    """Return the names of the parameters that DDP counts so, or ""."""
    wrapped = getattr(model, "module", None)  # an __init__ may have failed before
    if wrapped is None:
        return ""
    ignored = getattr(model, "parameters_to_ignore", ())
    names = [
        name
        for name, parameter in wrapped.named_parameters()
        if parameter.requires_grad and name not in ignored
    ]
    chosen = [names[index] for index in indices if index < len(names)]
    more = f" and {len(chosen) - _MOST} more" if len(chosen) > _MOST else ""
    return ", ".join(chosen[:_MOST]) + more
