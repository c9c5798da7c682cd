# run by: ranks
# says: Can't pickle local object
import math
import traceback

import torch
import torch.distributed as dist

dist.init_process_group("gloo")


def main():
    scale = lambda x: 2 * x  # noqa: E731
    seen = [None, None]
    dist.all_gather_object(seen, {"scale": math.sqrt})  # it is in a file
    assert seen == [{"scale": math.sqrt}] * 2
    for wrong in (
        lambda: dist.all_gather_object(seen, {"scale": scale}),
        lambda: torch.save({"scale": scale}, f"{dist.get_rank()}.pt"),
    ):
        try:
            wrong()
        except Exception:
            traceback.print_exc()


main()
