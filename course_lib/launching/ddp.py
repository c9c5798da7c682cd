"""What errors of DistributedDataParallel mean, with the names of parameters.

PyTorch's texts count parameters. Their names are known where the model is: in the rank.
"""

import re
import sys
from collections.abc import Iterator

_NO_ATTRIBUTE = "'DistributedDataParallel' object has no attribute"
_SAME_MODEL = "All ranks must wrap the same model, whose sizes depend on no rank."
# words of PyTorch's, where they count parameters, what these are, and what helps
_ERRORS = (
    (
        "Expected to have finished reduction in the prior iteration",
        r"did not receive grad for rank \d+: ([\d ]+)",
        "Without a gradient: {}. ",
        "DDP waits for the gradient of each parameter. Leave the unused ones out of the"
        " model, or set requires_grad_(False) before DDP(…), or let their output take"
        " part in the loss. Where it differs from step to step which are used: DDP(…,"
        " find_unused_parameters=True).",
    ),
    (
        "Expected to mark a variable ready only once",
        r"Parameter at index (\d+)",
        "Ready twice: {}. ",
        "A layer that is recomputed wants checkpoint(…, use_reentrant=False). One that"
        " is used twice in a forward, or in two forwards before a backward, wants"
        " DDP(…, static_graph=True), if each step uses the same layers.",
    ),
    (
        "appears not to match",
        r"params\[(\d+)\] in this process",
        "That is {}. ",
        _SAME_MODEL,
    ),
    ("DDP expects same model across all ranks", r"(?!)", "", _SAME_MODEL),
)
_MOST = 6  # names


def hints(error: BaseException, text: str) -> Iterator[str]:
    """Yield what helps against an error of DDP, whose message is `text`."""
    if _NO_ATTRIBUTE in text:
        name = text.rpartition("attribute ")[2].strip("'")
        yield f"DDP wraps the model, which is its .module: net.module.{name}."
    for words, counted, these, advice in _ERRORS:
        if words in text:
            found = re.search(counted, text)
            indices = map(int, found[1].split()) if found else ()
            names = _named(_innermost(error), indices)
            yield (these.format(names) if names else "") + advice


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
