# hint: [to spare]
# same as: largest_first.py
def place(blocks, x, budget):
    gpu = torch.get_device_module(x.device)
    sizes = [sum(p.numel() for p in block.parameters()) for block in blocks]
    order = sorted(range(len(blocks)), key=sizes.__getitem__)
    chosen = []
    while True:
        gpu.reset_peak_memory_stats(x.device)
        step(blocks, x, chosen)
        for block in blocks:
            block.zero_grad()
        if gpu.max_memory_allocated(x.device) <= budget:
            return chosen
        chosen.append(order.pop())
