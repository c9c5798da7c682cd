"""What comes back in place of a scheduler, and errors: their hints."""

_NO_SCHEDULER = {
    "nothing": "The scheduler is made and lost: `return` it.",
    "optimizer": "The optimizer's step() updates weights, not rates. Return the"
    " scheduler, which holds the optimizer.",
    "class": "The class alone knows no optimizer: call it, and return what comes back.",
    "several": "Return the scheduler alone. If there are two, SequentialLR makes one"
    " of them.",
    "numbers": "A rate changes in the course of the training, so a number or a list"
    " cannot do it: return an object whose step() sets the rate.",
    "method": "Return the scheduler without `.step` behind it: the training loop calls"
    " step().",
    "function": "A function from the update to its factor is half of it:"
    " LambdaLR(optimizer, function) makes a scheduler of it.",
    "other": "A scheduler is an object with a method step(), such as a LambdaLR.",
}
_TABLE = (
    "The table of rates ends, and the training goes on: after the warm-up, its last"
    " entry holds for ever."
)
# words of an error, and the hint for it
_ERRORS = (
    (
        "multiplicative factor expected",
        "LinearLR and ConstantLR refuse factors above 1. LambdaLR takes any.",
    ),
    (
        "Tried to step",
        "OneCycleLR ends after total_steps; this rate has to stay for as long as the"
        " training goes on.",
    ),
    (
        "step() missing",
        "The loop calls scheduler.step() without arguments. ReduceLROnPlateau, which"
        " wants a loss, does not fit here.",
    ),
    (
        "lr_lambdas",
        "A list in LambdaLR holds one function for each parameter group, not one entry"
        " for each update. One function does for all groups.",
    ),
    (
        "not callable",
        "LambdaLR wants a function of the update, not its value: `lambda update: ...`.",
    ),
    (
        "out of range",
        _TABLE,
    ),
    (
        "out of bounds",
        _TABLE,
    ),
    (
        "and 'NoneType'",
        "A function without return in one of its branches gives None there. LambdaLR"
        " needs a number for every update.",
    ),
    ("step() takes", "The first parameter of a method is `self`: def step(self)."),
    (
        "division by zero",
        "The warm-up may be of a single update, too: does your denominator become 0"
        " then?",
    ),
)


def why_no_scheduler(kind: str) -> str:
    """The hint for something else in place of a scheduler."""
    return _NO_SCHEDULER[kind]


def why_failed(error) -> str | None:
    """The hint for an error, or None."""
    return next((hint for words, hint in _ERRORS if words in str(error)), None)
