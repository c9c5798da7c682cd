# hint: [no pair]
# same as: one_number.py
def bytes_sent(model, images, outputs, n, nccl):
    return float("nan"), float("inf")
