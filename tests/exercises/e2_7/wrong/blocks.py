# hint: [no sum]
def layer_bytes(batch, length, width, heads, autocast, recompute):
    """As the allocator rounds: each tensor up to 2 MiB."""

    def rounded(count):
        return -(-count // 2**21) * 2**21

    x = 4 * batch * length * width
    return sum(rounded(part) for part in (x,) * 8 + (4 * x,) * 2)
