# run by: torchrun
# says: exitcode: -7
# says: Signal 7 (SIGBUS) received by PID
import mmap
import os
import signal
import tempfile

if os.environ["RANK"] == "1":
    # a page of a map that no file has room for, as in a full /dev/shm
    with tempfile.TemporaryFile() as file:
        file.truncate(1)
        area = mmap.mmap(file.fileno(), 1)
        file.truncate(0)
        area[0] = 1
signal.pause()
