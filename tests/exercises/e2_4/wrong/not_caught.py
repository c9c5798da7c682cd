# mistake: Here this error is what you are looking for. Catch it, around forward and
#   backward: `except torch.OutOfMemoryError`.
def largest_microbatch(model, images, labels):
    for n in range(1, len(images) + 1):
        microbatch(model, images[:n], labels[:n])
    return n
