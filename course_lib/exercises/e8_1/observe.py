"""Exercise 8.1, in a rank: whom an answer finds in environments of other ranks."""

from course_lib.exercises.values import plain
from course_lib.system.patching import environment

# what this process has in os.environ meanwhile: no environment that is given has these
OWN = {"RANK": "7", "WORLD_SIZE": "9", "LOCAL_RANK": "3"}
# what reading a variable that is not there, or is no number, may raise; or who refuses
_RAISED = (LookupError, TypeError, ValueError, AssertionError, RuntimeError)


def observe(rank, world_size, answer, given):
    """Return what the answer gives or raises for each of `given["environments"]`.

    Beside that are the names that it has taken out of the dictionary, or set anew.
    """
    with environment(OWN):  # so that who reads os.environ is known
        return {"answers": [_asked(answer, env) for env in given["environments"]]}


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
