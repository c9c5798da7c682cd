# hint: after each gradient look at all of them
def serve(weights, workers, steps, bound):
    done, waiting = [0] * workers, []
    gradient = torch.empty_like(weights)
    for _ in range(workers * steps):
        worker = dist.recv(gradient)
        weights -= 0.1 * gradient
        done[worker - 1] += 1
        waiting.append(worker)
        free = [one for one in waiting if done[one - 1] - min(done) <= bound]
        if worker in free:
            dist.send(weights, dst=worker)
            waiting.remove(worker)
            free.remove(worker)
        if free:
            dist.send(weights, dst=free[0])
            waiting.remove(free[0])
    return weights
