# run by: file
# says: An attempt has been made to start a new process before
import multiprocessing as mp


def worker():
    print("begun")


process = mp.get_context("spawn").Process(target=worker)
process.start()
process.join()
