# hint: Is every try real
def largest_microbatch(model, images, labels):
    return len(images)
