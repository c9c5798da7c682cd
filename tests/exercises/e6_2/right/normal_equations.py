def find_knee(steps):
    # least squares with weights 1 / s², written out
    n = x = y = xx = xy = 0
    for batch, s in steps.items():
        weight = 1 / s**2
        n += weight
        x += weight / batch
        y += weight * s
        xx += weight / batch**2
        xy += weight * s / batch
    slope = (n * xy - x * y) / (n * xx - x * x)
    least = (y - slope * x) / n
    return least, slope / least
