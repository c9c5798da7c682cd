# run by: file
# says: Can't pickle local object
# says: attribute lookup <lambda> on __main__ failed
import multiprocessing as mp
import traceback


def main():
    def worker():
        print("begun")

    for target in (worker, function):
        try:
            mp.get_context("spawn").Process(target=target).start()
        except Exception:
            traceback.print_exc()


function = lambda: None  # noqa: E731
if __name__ == "__main__":
    main()
