def efficiency(seconds, gpus):
    import numpy as np

    nodes = np.array([n / 8 for n in seconds])
    times = np.array(list(seconds.values()))
    many = nodes >= 2

    def design(N):
        return np.stack([np.ones_like(N), 2 * (N - 1), 2 * (N - 1) / N], axis=-1)

    solved, *_ = np.linalg.lstsq(design(nodes[many]), times[many], rcond=None)
    predicted = design(np.array([gpus / 8])) @ solved
    return times[nodes.argmin()] / predicted[0]
