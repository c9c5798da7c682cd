"""The scene of gradients and their noise: what is seen is what is averaged."""

import re

import pytest
import torch

from course_lib import scenes
from course_lib.errors import UsageError


@pytest.fixture(scope="module")
def gradients():
    """f32[400, 6]: a true gradient of (3, 0, …), most scatter along the fourth."""
    chance = torch.Generator().manual_seed(0)
    scatter = torch.tensor([0.2, 0.1, 0.1, 2.0, 0.1, 0.1])
    rows = scatter * torch.randn(400, 6, generator=chance)
    return rows - rows.mean(0) + torch.tensor([3.0, 0, 0, 0, 0, 0])


def numbers(moment):
    return [float(number) for number in re.findall(r"\d+\.\d+", moment.title)]


def test_the_plane_holds_the_true_gradient_and_the_largest_scatter(gradients):
    moments = scenes.noise(gradients).runs[1,]
    at = {item.id: item for item in moments[-1].items}
    # a deviation of 0.2 along the true gradient, whose length is 3, of 2 across it
    ring, true = at["spread"], at["true"]
    assert ring.w / ring.h == pytest.approx(10, rel=0.1)
    assert ring.h / 2 / -true.h == pytest.approx(0.2 / 3, rel=0.1)


def test_four_times_the_samples_halve_what_batches_miss(gradients):
    scene = scenes.noise(gradients)
    misses = [numbers(moments[-1])[0] for moments in scene.runs.values()]
    for large, small in zip(misses, misses[1:], strict=False):
        assert large / small == pytest.approx(2, rel=0.4)


def test_the_last_title_says_what_was_measured_and_what_the_rule_says(gradients):
    last = scenes.noise(gradients).runs[16,][-1]
    measured, one, rule = numbers(last)
    assert "/ √16 is" in last.title
    assert rule == pytest.approx(one / 4, rel=0.05)
    assert measured == pytest.approx(rule, rel=0.3)


def test_titles_measure_in_all_directions_not_in_those_of_the_picture():
    # as much scatter in each of 100 directions: two of them hold a 50th of it
    rows = torch.randn(200, 100, generator=torch.Generator().manual_seed(1))
    scene = scenes.noise(rows)
    spread = rows.var(0, correction=0).sum().sqrt().item()
    title = scene.moments[-1].title
    measured, one = map(float, re.findall(r"[\d.]+(?= \(| /)", title))
    assert one == pytest.approx(spread, rel=0.06)
    assert measured == pytest.approx(spread, rel=0.2)
    assert "two of their 100 directions, titles measure in all" in scene.source


def test_each_moment_adds_a_batch_and_the_true_gradient_stays(gradients):
    moments = scenes.noise(gradients).moments
    dots = [sum(item.id.startswith("dot ") for item in m.items) for m in moments]
    assert dots == [*range(31), 30]
    true = [next(i for i in m.items if i.id == "true") for m in moments]
    assert len({*true}) == 1 and true[0].h < 0 and true[0].w == pytest.approx(0, abs=1)


def test_all_is_inside_of_the_figure_at_one_scale_for_all_sizes(gradients):
    scene = scenes.noise(gradients)
    width, height = scene.size
    for moments in scene.runs.values():
        for item in moments[-1].items:
            if item.id.startswith("dot "):
                assert 140 <= item.x <= width - 5 and 0 <= item.y <= height - 5
    first, other = scene.runs[1,][0], scene.runs[64,][0]
    arrows = [next(i for i in m.items if i.id == "true") for m in (first, other)]
    assert arrows[0] == arrows[1]


def test_the_dashed_line_shrinks_with_the_root_of_the_size(gradients):
    runs = scenes.noise(gradients).runs
    one, four = (
        next(item for item in runs[size,][-1].items if item.id == "spread")
        for size in (1, 4)
    )
    assert (four.w, four.h) == pytest.approx((one.w / 2, one.h / 2))


def test_the_batches_are_the_same_again_and_no_other_chance_is_used(gradients):
    state = torch.random.get_rng_state()
    pages = [scenes.noise(gradients)._repr_html_() for _ in range(2)]
    assert pages[0] == pages[1]
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "harmless", [[[1.0, 2.0]], [[0.0, 0.0]] * 3, [torch.ones(1)] * 2, [[1e-20, 0]] * 2]
)
def test_gradients_that_do_not_scatter_lie_on_the_true_one(harmless):
    scene = scenes.noise(harmless)
    assert numbers(scene.moments[-1])[0] == pytest.approx(0, abs=1e-6)
    assert scene._repr_html_()


@pytest.mark.parametrize(
    "bad", [[], 3, "abc", [[1.0, float("nan")]], [[1.0], [1.0, 2.0]], [1.0, 2.0], [[]]]
)
def test_what_is_no_gradient_is_refused(bad):
    with pytest.raises(UsageError, match="needs gradients of finite numbers"):
        scenes.noise(bad)


def test_what_autograd_returns_for_many_parameters_will_do():
    model = torch.nn.Linear(2, 3)
    xs = torch.eye(2)
    grads = [torch.autograd.grad(model(x).sum(), model.parameters()) for x in xs]
    assert scenes.noise(grads).source.count("of their 9 directions") == 1


def test_the_batches_of_the_lesson_stay_below_60_kb(gradients):
    assert len(scenes.noise(gradients)._repr_html_()) < 60_000
