# run by: python
# says: EADDRINUSE
# says: address already in use
# says: Address already in use
import os
import socket
import traceback

import torch.distributed as dist

other = socket.create_server(("127.0.0.1", 0))
port = other.getsockname()[1]
os.environ |= {"RANK": "0", "WORLD_SIZE": "1"}
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
for listen in (dist.init_process_group, socket.create_server):
    try:
        listen("gloo") if listen is dist.init_process_group else listen(("", port))
    except Exception:
        traceback.print_exc()
