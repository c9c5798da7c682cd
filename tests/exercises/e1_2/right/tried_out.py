import copy


def choose_cut(model, x, budget):
    devices = cl.devices(2)
    gpu = torch.get_device_module(devices[0])

    def peak(k):
        for device in devices:
            gpu.reset_peak_memory_stats(device)
        before = [*map(gpu.memory_allocated, devices)]
        parts = copy.deepcopy(model[:k]), copy.deepcopy(model[k:])
        for part, device in zip(parts, devices):
            part.to(device)
        optimizer = torch.optim.Adam([p for part in parts for p in part.parameters()])
        parts[1](parts[0](x.to(devices[0])).to(devices[1])).sum().backward()
        optimizer.step()
        peaks = map(gpu.max_memory_allocated, devices)
        return max(peak - held for peak, held in zip(peaks, before))

    return min(range(1, len(model)), key=peak)
