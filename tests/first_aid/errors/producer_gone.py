# run by: python
# says: ConnectionRefusedError: [Errno 111] Connection refused | in rebuild_storage_fd
import torch
import torch.multiprocessing as mp


def put(queue):
    for number in range(5):
        queue.put(torch.full((3,), float(number)))


context = mp.get_context("fork")
queue = context.Queue()
process = context.Process(target=put, args=(queue,))
process.start()
process.join()
print([queue.get() for _ in range(5)])
