# hint: The strategy is chosen by who sends
# same as: leaking.py
def digest(queue, count):
    mp.set_sharing_strategy("file_system")
    best, seen = [], []
    for _ in range(count):
        images, labels = queue.get()
        brightest = images.sum((1, 2, 3)).argmax()
        best.append(images[brightest])
        seen.append(labels)
    return best, torch.bincount(torch.cat(seen), minlength=10)
