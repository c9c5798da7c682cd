# hint: The last micro-batch is left out
# same as: last_one_dropped.py
def accumulate(model, microbatches):
    full = microbatches[:-1] or microbatches
    for images, labels in full:
        loss = cross_entropy(model(images), labels)
        (loss / len(full)).backward()
