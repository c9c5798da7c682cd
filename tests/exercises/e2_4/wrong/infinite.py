# hint: [no whole number]
# same as: returns_nothing.py
def largest_microbatch(model, images, labels):
    return float("inf")
