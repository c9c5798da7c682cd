# mistake: A fit that divides by zero or overflows? Look at its lines.
def find_knee(steps):
    B = torch.tensor(list(steps), dtype=torch.float32)
    s = torch.tensor(list(steps.values()), dtype=torch.float32)
    least = torch.tensor(1.0, requires_grad=True)
    knee = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.SGD([least, knee], lr=0.1)
    for _ in range(1000):
        optimizer.zero_grad()
        ((least * (1 + knee / B) - s) ** 2).mean().backward()
        optimizer.step()
    return least.item(), knee.item()
