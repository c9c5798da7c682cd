# says: join
# ruff: noqa: F821  names are those of the test's CELL
import multiprocessing as mp


def joins(rank, world_size):
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=lambda: queue.put(list(range(10**6))))
    process.start()
    process.join()
    return len(queue.get())


cl.launch(joins, world_size=2, timeout=10)
