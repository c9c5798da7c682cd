# hint: [stopped early]
# same as: powers_of_two.py
def largest_microbatch(model, images, labels):
    n = len(images)
    while True:
        try:
            for _ in range(2):
                microbatch(model, images[:n], labels[:n])
            model.zero_grad()
            return n
        except torch.OutOfMemoryError:
            model.zero_grad()
            n //= 2
