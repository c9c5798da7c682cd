"""How a batch averages noise: gradients of batches around the true gradient."""

import torch

from course_lib.errors import UsageError
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import Scene, varied

_LEFT, _TOP, _WIDTH, _HEIGHT = 150, 12, 478, 250  # of 640, the width of a figure
_LEAST = 84  # height of what says what is what
_DOT = 7
_SIZES = [1, 4, 16, 64, 256]  # of batches
_DRAWS = 30  # of batches of a size


def noise(gradients) -> Scene:
    """Draw batches of gradients of single samples.

    Each of `gradients` is f32[parameters], or what `torch.autograd.grad` returns. The
    true gradient is their mean, that of a batch the mean of some that are drawn, with
    replacement. Two directions are seen: along the true gradient, which points up, and
    sideways that one across it in which single gradients scatter most. The dashed line
    has their standard deviations in both over √B for a batch size B; distances in
    titles are in all directions.

    Errors: `UsageError` where there is no gradient of finite numbers.
    """
    rows = _checked(gradients)
    means = _means(rows)
    plane = _Plane(rows, _directions(rows), shown=torch.cat(list(means.values())))
    source = f"measured: {len(rows):,} gradients, seed 0; the picture shows two "
    source += f"of their {rows.shape[1]:,} directions, titles measure in all of them"
    return varied(
        lambda **values: _moments(plane, means, *values.values()),
        {"batch size": _SIZES},
        height=2 * _TOP + plane.height,
        source=source,
        alt="dots around the head of an arrow",
        seconds=0.4,
    )


def _directions(gradients):
    """Along their mean, and across it where they differ most: f64[parameters, 2]."""
    true = gradients.mean(0)
    along = true / true.norm().clamp(min=1e-30)
    rest = gradients - torch.outer(gradients @ along, along)
    # the largest eigenvector by repeated products: all 1,024 of them take seconds
    products, part = rest @ rest.T, rest.norm(dim=1)
    for _ in range(200):
        part = products @ part
        part /= part.norm().clamp(min=1e-30)
    across = rest.T @ part
    across /= across.norm().clamp(min=1e-30)
    return torch.stack([along, across], dim=1)


def _means(rows):
    """Return the gradients of batches, f64[draws, parameters] for each size."""
    chance, means = torch.Generator().manual_seed(0), {}
    for size in _SIZES:
        batches = torch.randint(len(rows), (_DRAWS, size), generator=chance)
        # how often each is in a batch: to pick the rows themselves takes much memory
        counts = [batch.bincount(minlength=len(rows)) for batch in batches]
        means[size] = torch.stack(counts).double() @ rows / size
    return means


def _checked(gradients):
    try:
        rows = torch.stack(list(map(_row, gradients))).detach().double()
    except (TypeError, ValueError, RuntimeError):
        rows = torch.empty(0)
    if rows.dim() == 2 and rows.numel() and rows.isfinite().all():
        return rows.cpu()
    raise UsageError(
        "noise() needs gradients of finite numbers, f32[n, parameters]: found "
        f"{type(gradients).__name__} of shape {list(rows.shape)}"
    )


def _row(gradient):
    """Return a tensor as it is, those of many parameters in one."""
    if isinstance(gradient, torch.Tensor):
        return gradient
    return torch.cat([torch.as_tensor(part).flatten() for part in gradient])


def _moments(plane, means, size):
    """One for each batch, and before and after them."""
    away = (means[size] - plane.mean).norm(dim=1).tolist()
    still, dots = list(plane.frame(size)), []
    moments = [Moment("The true gradient is the mean over all samples.", still)]
    for number, (point, far) in enumerate(zip(plane.seen(means[size]), away)):
        title = f"Batch {number + 1}: its gradient misses the true one by {_two(far)}."
        dots = [*dots, plane.dot(number, point, title)]
        newest = plane.arrow("newest", point, role="gradients arrow")
        moments.append(Moment(title, [*still, *dots, newest]))
    mean = (sum(far**2 for far in away) / len(away)) ** 0.5
    one = plane.one
    title = f"Batches of {size} miss the true gradient by {_two(mean)} (root mean "
    title += f"square); the spread {_two(one)} / √{size} is {_two(one / size**0.5)}."
    return [*moments, Moment(title, [*still, *dots])]


def _two(number):
    """`0.20`, `12`: two digits."""
    return f"{number:#.2g}".rstrip(".")


class _Plane:
    """Where gradients lie: the true one points up, what is across it sideways."""

    def __init__(self, rows, directions, *, shown):
        self.directions, self.mean = directions, rows.mean(0)
        self.one = rows.std(0, correction=0).norm().item()
        points = self.seen(rows)
        self.true, self.spread = points.mean(0), points.std(0, correction=0)
        ends = torch.cat([self.seen(shown), self.true[None], torch.zeros(1, 2)])
        low, high = ends.min(0).values, ends.max(0).values
        up, across = (high - low).clamp(min=1e-30).tolist()
        scale = min(_HEIGHT / up, _WIDTH / across)
        self.scale, self.height = scale, max(_LEAST, up * scale)
        middle = ((low + high) / 2).tolist()
        self.x = _LEFT + _WIDTH / 2 - middle[1] * scale
        self.y = _TOP + self.height / 2 + middle[0] * scale

    def seen(self, gradients):
        """Return their part in the plane, f64[n, 2]."""
        return gradients @ self.directions

    def _place(self, point):
        along, across = point.tolist()
        return self.x + across * self.scale, self.y - along * self.scale

    def arrow(self, name, point, *, role="arrow"):
        """Draw the gradient as an arrow from nothing to where it lies."""
        x, y = self._place(point)
        return Item(name, self.x, self.y, x - self.x, y - self.y, role)

    def dot(self, number, point, tip):
        """Draw the gradient of a batch."""
        x, y = self._place(point)
        at = x - _DOT / 2, y - _DOT / 2, _DOT, _DOT
        return Item(f"dot {number}", *at, "gradients dot", "", tip)

    def frame(self, size):
        """Yield what stays as it is while batches come."""
        yield Item("key true", 0, 16, 24, 0, "arrow")
        yield label("name true", (32, 16), "true gradient")
        yield Item("key dot", 9, 37, _DOT, _DOT, "gradients dot")
        yield label("name dot", (32, 40), "that of a batch")
        yield Item("key spread", 2, 57, 20, 14, "place dot")
        yield label("name spread", (32, 64), f"spread / √{size}")
        yield label("name plane", (32, 80), "in the picture", role="label soft")
        x, y = self._place(self.true)
        along, across = (self.spread * self.scale / size**0.5).tolist()
        yield Item("spread", x - across, y - along, 2 * across, 2 * along, "place dot")
        yield self.arrow("true", self.true)
