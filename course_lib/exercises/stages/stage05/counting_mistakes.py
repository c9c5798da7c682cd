"""What goes wrong when several processes count, and the hint for it."""


def why_failed(error) -> str | None:
    """The hint for a launch that failed, or None."""
    text = str(error)
    if "a lock is taken" in text:
        return (
            "A process took the lock and never gave it back, or took it twice. `with"
            " lock:` gives it back at the end of the block, whatever happens in it."
        )
    if "the processes have ended" in text:
        return (
            "The parent waits for something that nobody will put there any more. How"
            " many come, and how many does it take?"
        )
    if error.kind in ("Stuck", "late", "stalled"):
        return (
            "Each process waits for another one. Look at the line above: who should"
            " end, or put something there, and does it?"
        )
    if "rebuild_storage" in error.details:
        return (
            "Who sends a tensor must live until it has arrived: a queue brings only a"
            " handle. First get, then join; or send numbers, tolist()."
        )
    if "inheritance" in text:
        return (
            "A lock cannot go through a queue or to a pool. A forked process has it"
            " from the start: mp.Process(target=..., args=...)."
        )
    if "pickle" in text:
        return (
            "A pool and mp.spawn send a function by its name, and one of a cell is not"
            " found by it. A forked process has it from the start: mp.Process."
        )
    return None


def why_lost(seen: dict, everything: bool) -> str:
    """The hint for counts that are too small."""
    if everything:
        return _why_nothing(seen)
    if seen["threads"]:
        return (
            "A lock of `threading` is copied with the process: each process has one of"
            " its own, and nobody waits. Between processes it takes mp.Lock()."
        )
    if any(seen["own_lock"]):
        return (
            "Each process makes a lock of its own, so nobody ever waits. Make one lock"
            " before the processes start, and give it to all of them."
        )
    if any(seen["shared_lock"]) and seen["locks"] >= len(seen["reads"]) > 1:
        return (
            "There are as many locks as processes, so nobody ever waits for another."
            " All processes need the same lock."
        )
    if any(seen["shared_lock"]) and not any(seen["bare"]):
        return (
            "A process holds the lock when it writes, but it has read the old number"
            " before: another one wrote in between. Read and write under one lock."
        )
    if seen["locks"]:
        return (
            "There is a lock, but a process that writes does not hold it. Write `with"
            " lock:` around the whole addition."
        )
    return (
        "An addition is a read and a write, and another process may come between: both"
        " read the same number, and one addition is lost. Let only one in at a time"
        " (mp.Lock), or give each process numbers of its own."
    )


def _why_nothing(seen):
    """The hint where the counts are still those of the start."""
    if not seen["tensor"]:
        return (
            "A fork copies the numbers and lists of Python: each process changes its"
            " own copy. Only shared memory is seen by all."
        )
    if any(seen["writes"]):
        return (
            "The processes wrote to shared memory, but not to that of these counts."
            " Call share_memory_() before the processes start, on this very tensor."
        )
    if seen["shared"]:
        return (
            "The counts are in shared memory, and no process wrote there. Is it shared"
            " before the first start? And `counts = counts + ...` makes a new, private"
            " tensor: write in place, `counts[label] += 1`."
        )
    return (
        "Each process changed its own copy of the tensor. Call share_memory_() before"
        " the first process starts."
    )
