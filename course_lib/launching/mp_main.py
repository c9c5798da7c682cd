"""`__main__` of a process that a rank starts by spawn or forkserver: what travelled.

To multiprocessing a rank looks like `python -m` of this module, so it runs this here
where it would run a script again. The cells of the notebook do not run again.
"""

import linecache
import os
import pickle
import sys

from course_lib.launching import payload
from course_lib.system import linux

if __name__ == "__mp_main__" and os.environ.get("COURSE_LIB_CALL"):
    sys.modules["__main__"] = sys.modules[__name__]  # of which it makes a copy
    if sys.platform == "linux":
        linux.meet_without_files()
    # tracebacks show the lines of cells
    with open(os.environ["COURSE_LIB_SETUP"], "rb") as file:
        linecache.cache.update(pickle.load(file).sources)
    with open(os.environ["COURSE_LIB_CALL"], "rb") as file:
        payload.load(file)
