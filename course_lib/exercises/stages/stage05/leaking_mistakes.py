"""What keeps received batches alive, and the hint for it."""

_STRATEGY = "The strategy is chosen by who sends, and no strategy frees what is held. "


def why_failed(error) -> str | None:
    """The hint for a launch that failed, or None."""
    if error.kind in ("Stuck", "late", "stalled"):
        return (
            "The queue brings `count` batches and no more: the next get() waits for"
            " ever."
        )
    if error.kind in ("Empty", "ConnectionRefusedError", "EOFError"):
        return (
            "The queue was not waited for. get() without a time limit waits until the"
            " next batch is there."
        )
    if "must match" in str(error) or "doesn't match the broadcast" in str(error):
        return (
            "bincount gives as many numbers as the largest label needs, and not every"
            " batch has a 9. Ask for ten: bincount(labels, minlength=10)."
        )
    if "too many open files" in str(error).lower():
        return "Each tensor that is kept has a descriptor open: copy what you keep."
    return None


def why_other(number: int, last: bool) -> str:
    """The hint for an image that is not the brightest of its batch."""
    if last:
        return (
            "All are the image of the last batch: one buffer was filled again and"
            " again. Each image needs a copy of its own."
        )
    return "The brightest image has the largest sum over all of its pixels."


def why_held(seen: dict, count: int) -> str:
    """The hint for too many batches at a time."""
    images, labels = max(seen["images"]), max(seen["labels"])
    if images >= count - 2 and labels >= count - 2 and not any(seen["left"]):
        return (
            "All batches are received before the first is let go. Take one, keep a"
            " copy of what you need, and let it go before the next one comes."
        )
    if images <= 3:
        return (
            "The images are free, but the labels of each batch are kept until the end."
            " They are small, and still hold a descriptor each. Count them at once."
        )
    if labels <= 3:
        return (
            "The labels are free, but the images are not: images[i] is a view, and it"
            " keeps the memory of its whole batch alive. Only a copy lets go: clone()."
        )
    here = "" if seen["strategy"] == "file_descriptor" else _STRATEGY
    return (
        f"{here}Two things live on: images[i] is a view, which keeps its whole batch"
        " alive, and the labels of each batch are kept as they came. Neither del nor"
        " gc.collect() helps while somebody holds them."
    )


def why_left(seen: dict) -> str:
    """The hint for what is alive after the answer has returned."""
    if seen["shared"]:
        return (
            "What digest returned still lies in shared memory. Every image of it must"
            " be a copy, the last one too."
        )
    if sum(seen["left"]):
        return "Something outside of digest, a global list perhaps, keeps a batch."
    return "Something that digest opened is still open: close it."


def why_large(seen: dict) -> str:
    """The hint for a result that is far too large."""
    return (
        "Shared memory is free, but a copy of each whole batch lives on in your own:"
        " the view was taken from that copy. Copy the one image, not the batch"
        " (deepcopy of a view copies all the memory under it)."
    )
