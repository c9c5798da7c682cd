# run by: torchrun
# says: exitcode: -15
# says: Signal 15 (SIGTERM) received by PID
# says: Root Cause (first observed failure)
import os
import signal

if os.environ["RANK"] == "1":
    raise ValueError("no such file")
signal.pause()
