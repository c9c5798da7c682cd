class Server:
    def __init__(self, weights, workers, bound):
        self.weights, self.bound = weights, bound
        self.clock = np.zeros(workers, dtype=int)
        self.held = np.zeros(workers, dtype=bool)
        self.answers = []

    def take(self):
        gradient = torch.zeros_like(self.weights)
        number = dist.recv(gradient) - 1
        self.weights = self.weights - 0.1 * gradient
        self.clock[number] += 1
        self.held[number] = True

    def answer(self):
        free = self.held & (self.clock <= self.clock.min() + self.bound)
        for number in np.flatnonzero(free):
            self.answers.append(dist.isend(self.weights, int(number) + 1))
        self.held &= ~free


def serve(weights, workers, steps, bound):
    server = Server(weights, workers, bound)
    for _ in range(workers * steps):
        server.take()
        server.answer()
    for request in server.answers:
        request.wait()
    return server.weights
