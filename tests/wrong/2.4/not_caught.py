# hint: Here this error is what you are looking for
def largest_microbatch(model, images, labels):
    for n in range(1, len(images) + 1):
        microbatch(model, images[:n], labels[:n])
    return n
