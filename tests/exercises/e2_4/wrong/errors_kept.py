# hint: [memory taken]
# same as: tries_inside_except.py
def largest_microbatch(model, images, labels):
    low, high = 1, len(images) + 1
    errors = []
    while high - low > 1:
        mid = (low + high) // 2
        try:
            microbatch(model, images[:mid], labels[:mid])
            microbatch(model, images[:mid], labels[:mid])
            low = mid
        except RuntimeError as e:
            errors.append(e)
            high = mid
        model.zero_grad()
    return low
