# run by: torchrun
# says: exitcode: -9
# says: Signal 9 (SIGKILL) received by PID
import os
import signal

if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)  # as the system does when memory is short
signal.pause()
