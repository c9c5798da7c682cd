"""Exercise 8.1, in a rank: whom an answer finds in environments of other ranks."""

import contextlib
import os

from course_lib.exercises.values import plain

# what this process has in os.environ meanwhile: no environment that is given has these
OWN = {"RANK": "7", "WORLD_SIZE": "9", "LOCAL_RANK": "3"}
# what reading a variable that is not there, or is no number, may raise; or who refuses
_RAISED = (LookupError, TypeError, ValueError, AssertionError, RuntimeError)


def observe(rank, world_size, answer, given):
    """Return what the answer gives or raises for each of `given["environments"]`.

    Beside that are the names that it has taken out of the dictionary, or set anew.
    """
    with _own_numbers():
        return {"answers": [_asked(answer, env) for env in given["environments"]]}


@contextlib.contextmanager
def _own_numbers():
    """Let `os.environ` have `OWN` in a block, so that who reads it is known."""
    before = {name: os.environ.get(name) for name in OWN}
    os.environ.update(OWN)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _asked(answer, env):
    its = dict(env)
    found = _given(answer, its)
    lost = [name for name in env if name not in its]
    anew = [name for name in env if plain(its.get(name)) != env[name]]
    return found | {"lost": lost, "anew": anew}


def _given(answer, env):
    try:
        return {"returned": plain(answer(env)), "raised": "", "refused": False}
    except _RAISED as error:
        here = error.__traceback__
        if isinstance(error, NotImplementedError) or here is None or not here.tb_next:
            raise  # a stub, or the call itself: other parameters
        words = f"{type(error).__name__}: {error}"[:80]
        refused = isinstance(error, ValueError)
        return {"returned": None, "raised": words, "refused": refused}
