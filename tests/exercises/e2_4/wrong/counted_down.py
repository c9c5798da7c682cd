# hint: [too many tries]
# same as: one_by_one.py
def largest_microbatch(model, images, labels):
    for n in range(len(images), 0, -1):
        try:
            for _ in range(2):
                microbatch(model, images[:n], labels[:n])
            model.zero_grad()
            return n
        except torch.OutOfMemoryError:
            model.zero_grad()
