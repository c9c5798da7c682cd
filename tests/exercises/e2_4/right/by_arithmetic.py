def largest_microbatch(model, images, labels):
    """Bytes grow by the same number with each image: measure two sizes."""
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)

    def peak(n):
        gpu.reset_peak_memory_stats(device)
        for _ in range(2):
            microbatch(model, images[:n], labels[:n])
        model.zero_grad()
        return gpu.max_memory_allocated(device)

    small, large = peak(24), peak(32)
    each = (large - small) / 8
    _, capacity = gpu.mem_get_info(device)
    return min(len(images), int(24 + (capacity - small) / each))
