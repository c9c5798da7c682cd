def find_knee(steps):
    B = torch.tensor(list(steps), dtype=torch.float64)
    s = torch.tensor(list(steps.values()), dtype=torch.float64)
    x = torch.stack([s.min().log(), B.median().log()]).requires_grad_()
    optimizer = torch.optim.LBFGS([x], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        fit = x[0] + torch.log1p(x[1].exp() / B)
        loss = ((fit - s.log()) ** 2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return x.detach().exp()
