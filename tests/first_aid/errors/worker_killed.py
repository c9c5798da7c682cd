# run by: python
# says: DataLoader worker (pid 4711) is killed by signal: Killed
# says: DataLoader worker (pid(s) 4711) exited unexpectedly
import os
import signal

from torch.utils.data import DataLoader, Dataset


class Large(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)  # as the system does when memory is short


list(DataLoader(Large(), num_workers=1))
