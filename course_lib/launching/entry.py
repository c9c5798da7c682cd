"""What torchrun starts for each rank: it asks the launch for one, ends when that does.

`python -u entry.py NAME`. The rank is forked from a process that has imported torch,
with the variables that torchrun gave to this one.
"""

import socket
import sys

if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(f"\0{sys.argv[1]}")
        done = link.recv(1)  # nothing, once the launch is gone
    sys.exit(0 if done else 1)
