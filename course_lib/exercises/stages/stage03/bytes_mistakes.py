"""What is miscounted about the bytes of a step, and the hint for it."""

_ELEMENTS = "These are elements, not bytes. How many bytes has one? tensor.nbytes."
_FOUR = (
    "An element has not always 4 bytes: in float64 it has 8. tensor.nbytes and"
    " tensor.element_size() know."
)
_UNIT = "These are kB or MB. Return bytes."
_OWN = "Device 0 keeps its own copy and its own share: it sends to n − 1 devices."


def sent_by_device_0(
    s, *, to=None, weights=1, buffers=1, images=1, outputs=1, whole=False
):
    """What device 0 sends in bytes, or what a mistake makes of it, of these sizes."""
    n = s["n"]
    to = n - 1 if to is None else to(n)
    share = to if whole else to / n
    model = weights * s["weights"] + buffers * s["buffers"]
    return to * model + share * (images * s["images"] + outputs * s["outputs"])


_BUFFERS = (
    "Right without buffers. A replica needs those of BatchNorm, too, so they are sent"
    " in every step: model.buffers()."
)
_OUTPUTS = (
    "In backward device 0 sends once more: each replica gets the gradient of its"
    " outputs, as large as the outputs."
)
_RECEIVED = (
    "This also counts what device 0 receives: outputs and gradients come home. Asked"
    " for is what it sends."
)
_SENT_BY_DEVICE_0 = (
    (_OWN, {"to": lambda n: n}),
    (_BUFFERS, {"buffers": 0}),
    (_OUTPUTS, {"outputs": 0}),
    (_OUTPUTS, {"outputs": 0, "buffers": 0}),
    (_RECEIVED, {"weights": 2}),
    (_RECEIVED, {"outputs": 2}),
    (_RECEIVED, {"weights": 2, "outputs": 2}),
    (_RECEIVED, {"weights": 2, "outputs": 2, "buffers": 2}),
    (_RECEIVED, {"weights": 2, "outputs": 2, "buffers": 0}),
    (
        "The inputs are missing: every other device gets its share of the batch.",
        {"images": 0},
    ),
    (
        "Only weights are counted. Each step also sends shares of the batch, and in"
        " backward gradients of the outputs.",
        {"images": 0, "outputs": 0},
    ),
    (
        "Only weights are counted. Each step also sends shares of the batch, and in"
        " backward gradients of the outputs.",
        {"images": 0, "outputs": 0, "buffers": 0},
    ),
    (
        "The weights do not stay on the devices: each step sends them anew.",
        {"weights": 0, "buffers": 0},
    ),
    (
        "Each device gets a share of the batch, not the whole batch: 1/n of it.",
        {"whole": True},
    ),
)


def _once(s):
    part = (s["n"] - 1) / s["n"]
    return s["weights"] + s["buffers"] + part * (s["images"] + s["outputs"])


def _shared(s):
    part = (s["n"] - 1) / s["n"]
    return part * (s["weights"] + s["buffers"] + s["images"] + s["outputs"])


def _kept(s):
    model = (s["n"] - 1) * (s["weights"] + s["buffers"])
    return model + s["images"] + s["outputs"]


_KEPT = (
    "Images and outputs do not go out in all: device 0 keeps its own share, so"
    " (n − 1)/n of them."
)
_WHOLE_COPY = (
    "The weights are cut here as if they were a batch. Each of the other devices gets"
    " all of them."
)
_TO_EACH = "The weights go out once for each of the other n − 1 devices, not once."
_SWAPPED = "The two numbers are swapped: DataParallel first, then DDP."


def _ring(s):
    return 2 * (s["n"] - 1) / s["n"] * s["weights"]


_SENT_BY_A_RANK = (
    (
        "This is one half: a ring first adds up (n − 1)/n of the gradients, then sends"
        " the sums round, again (n − 1)/n.",
        lambda s: _ring(s) / 2,
    ),
    (
        "This is what all n ranks send together. Asked for is one rank.",
        lambda s: _ring(s) * s["n"],
    ),
    (
        "In a ring nobody sends all gradients to everybody: a rank sends (n − 1)/n of"
        " them, twice.",
        lambda s: (s["n"] - 1) * s["weights"],
    ),
    (
        "Nearly: one of the n parts is already where it belongs, so a rank sends"
        " (n − 1)/n of the gradients, twice.",
        lambda s: 2 * s["weights"],
    ),
    (
        "Sending the gradients once does not bring every sum to every rank. How many"
        " rounds does a ring make?",
        lambda s: s["weights"],
    ),
    (
        "A rank receives as much as it sends; asked for is what it sends.",
        lambda s: 2 * _ring(s),
    ),
    (
        "Buffers have no gradients: only parameters count here.",
        lambda s: _ring(s) + 2 * (s["n"] - 1) / s["n"] * s["buffers"],
    ),
    (
        "In DDP weights stay where they are, and each rank reads its own samples. Only"
        " the gradients travel.",
        lambda s: _ring(s) + sent_by_device_0(s),
    ),
)


# what bytes are multiplied by, and the hint where that is the only mistake
_SCALES = (
    (_FOUR, lambda s: 4 / s["width"]),
    (_ELEMENTS, lambda s: 1 / s["width"]),
    (_UNIT, lambda s: 1e-3),
    (_UNIT, lambda s: 1 / 1024),
    (_UNIT, lambda s: 1e-6),
    (_UNIT, lambda s: 1 / 1024**2),
)


def why(number: int, found: list, sizes: list) -> str:
    """The hint for predictions of DataParallel (0) or DDP (1), one for each case."""
    right, other = (sent_by_device_0, _ring)[:: 1 if number == 0 else -1]
    wrong = [(_SWAPPED, other), *(_SENT_BY_A_RANK if number else _of_parallel())]
    for hint, gives in wrong:
        if _all(found, sizes, gives):
            return hint
    for unit, scale in _SCALES:
        for hint, gives in (("", right), *wrong):
            if _all(found, sizes, lambda s, k=scale, g=gives: k(s) * g(s)):
                # the mistake is wrong in float32, too: it comes before the width
                return hint if hint and unit == _FOUR else unit
    if number == 0:
        return (
            "Look at the row of device 0 in the lesson's matrix: weights and"
            " buffers to each other device, shares of the batch, gradients of outputs."
        )
    return "A rank sends (n − 1)/n of the bytes of all gradients, twice."


def _of_parallel():
    for hint, how in _SENT_BY_DEVICE_0:
        yield hint, lambda s, how=how: sent_by_device_0(s, **how)
    yield _KEPT, _kept
    yield _TO_EACH, _once
    yield _WHOLE_COPY, _shared


def _all(found, sizes, gives):
    """True if a mistake explains every case."""
    pairs = ((one, gives(s)) for one, s in zip(found, sizes))
    return all(abs(one - wrong) <= 0.002 * abs(wrong) + 1e-9 for one, wrong in pairs)
