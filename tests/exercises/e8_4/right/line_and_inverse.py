def efficiency(seconds, gpus):
    """The formula is a constant, a multiple of the GPUs, and one of their inverse."""
    counts = torch.tensor([n for n in seconds if n > 8], dtype=torch.float64)
    rows = torch.stack([torch.ones(3), counts, 1 / counts], dim=1)
    times = torch.tensor([seconds[int(n)] for n in counts], dtype=torch.float64)
    constant, slope, inverse = torch.linalg.inv(rows.double()) @ times
    return seconds[min(seconds)] / (constant + slope * gpus + inverse / gpus)
