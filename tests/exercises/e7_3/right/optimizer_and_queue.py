from collections import Counter, deque


def serve(weights, workers, steps, bound):
    """An optimizer steps; those who wait stand in a queue that goes round once."""
    parameter = torch.nn.Parameter(weights.clone())
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    steps_of, queue = Counter(dict.fromkeys(range(1, 1 + workers), 0)), deque()
    while queue or min(steps_of.values()) < steps:
        parameter.grad = torch.zeros_like(parameter)
        sender = dist.recv(parameter.grad)
        optimizer.step()
        steps_of[sender] += 1
        queue.append(sender)
        least = min(steps_of.values())
        for _ in range(len(queue)):
            rank = queue.popleft()
            if steps_of[rank] > least + bound:
                queue.append(rank)
            else:
                dist.send(parameter.data, rank)
    return parameter.detach()
