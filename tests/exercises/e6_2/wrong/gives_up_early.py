# hint: [other curve]
def find_knee(steps):
    B = torch.tensor(list(steps), dtype=torch.float32)
    s = torch.tensor(list(steps.values()), dtype=torch.float32)
    x = torch.tensor([5.0, 5.0], requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        fit = x[0] + torch.log1p(x[1].exp() / B)
        ((fit - s.log()) ** 2).mean().backward()
        optimizer.step()
    least, knee = x.detach().exp().tolist()
    return least, knee
