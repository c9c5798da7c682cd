# mistake: Is every try real, forward and backward on the device? Catch
#   torch.OutOfMemoryError around both.
def largest_microbatch(model, images, labels):
    return len(images)
