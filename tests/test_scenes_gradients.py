"""The scene of gradients and their noise: what is seen is what is averaged."""

import re

import pytest
import torch

from course_lib import scenes
from course_lib.errors import UsageError
from course_lib.scenes.gradients import flat


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
    points = flat(gradients.double())
    assert points.shape == (400, 2)
    assert points.mean(0).tolist() == pytest.approx([3, 0], abs=1e-5)
    assert points[:, 0].std().item() == pytest.approx(0.2, rel=0.1)
    assert points[:, 1].std().item() == pytest.approx(2.0, rel=0.1)


def test_four_times_the_samples_halve_what_batches_miss(gradients):
    scene = scenes.noise(gradients, batch_sizes=[1, 4, 16, 64, 256], draws=100)
    misses = [numbers(moments[-1])[0] for moments in scene.runs.values()]
    for large, small in zip(misses, misses[1:], strict=False):
        assert large / small == pytest.approx(2, rel=0.3)


def test_the_last_title_says_what_was_measured_and_what_the_rule_says(gradients):
    last = scenes.noise(gradients, batch_sizes=[16]).moments[-1]
    measured, one, rule = numbers(last)
    assert "/ √16 is" in last.title
    assert rule == pytest.approx(one / 4, rel=0.05)
    assert measured == pytest.approx(rule, rel=0.3)


def test_titles_measure_in_all_directions_not_in_those_of_the_picture():
    # as much scatter in each of 100 directions: two of them hold a 50th of it
    rows = torch.randn(200, 100, generator=torch.Generator().manual_seed(1))
    scene = scenes.noise(rows, batch_sizes=1, draws=100)
    spread = rows.var(0, correction=0).sum().sqrt().item()
    title = scene.moments[-1].title
    measured, one = map(float, re.findall(r"[\d.]+(?= \(| /)", title))
    assert one == pytest.approx(spread, rel=0.06)
    assert measured == pytest.approx(spread, rel=0.2)
    assert "two of their 100 directions, titles measure in all" in scene.source


def test_each_moment_adds_a_batch_and_the_true_gradient_stays(gradients):
    moments = scenes.noise(gradients, draws=5).moments
    dots = [sum(item.id.startswith("dot ") for item in m.items) for m in moments]
    assert dots == [0, 1, 2, 3, 4, 5, 5]
    true = [next(i for i in m.items if i.id == "true") for m in moments]
    assert len({*true}) == 1 and true[0].h < 0 and true[0].w == pytest.approx(0, abs=1)


def test_all_is_inside_of_the_figure_at_one_scale_for_all_sizes(gradients):
    scene = scenes.noise(gradients, batch_sizes=[1, 64])
    width, height = scene.size
    for moments in scene.runs.values():
        for item in moments[-1].items:
            if item.id.startswith("dot "):
                assert 140 <= item.x <= width - 5 and 0 <= item.y <= height - 5
    (first, *_), (other, *_) = scene.runs.values()
    arrows = [next(i for i in m.items if i.id == "true") for m in (first, other)]
    assert arrows[0] == arrows[1]


def test_the_dashed_line_shrinks_with_the_root_of_the_size(gradients):
    scene = scenes.noise(gradients, batch_sizes=[1, 4])
    one, four = (
        next(i for i in moments[-1].items if i.id == "spread")
        for moments in scene.runs.values()
    )
    assert (four.w, four.h) == pytest.approx((one.w / 2, one.h / 2))


def test_a_seed_gives_the_same_batches_again_and_no_other_chance_is_used(gradients):
    state = torch.random.get_rng_state()
    pages = [scenes.noise(gradients, seed=seed)._repr_html_() for seed in (3, 3, 4)]
    assert pages[0] == pages[1] != pages[2]
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "harmless", [[[1.0, 2.0]], [[0.0, 0.0]] * 3, [torch.ones(1)] * 2, [[1e-20, 0]] * 2]
)
def test_gradients_that_do_not_scatter_lie_on_the_true_one(harmless):
    scene = scenes.noise(harmless, batch_sizes=[1, 2], draws=2)
    assert numbers(scene.moments[-1])[0] == pytest.approx(0, abs=1e-6)
    assert scene._repr_html_()


@pytest.mark.parametrize(
    "bad", [[], 3, "abc", [[1.0, float("nan")]], [[1.0], [1.0, 2.0]], [1.0, 2.0], [[]]]
)
def test_what_is_no_gradient_is_refused(bad):
    with pytest.raises(UsageError, match="needs gradients of finite numbers"):
        scenes.noise(bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"batch_sizes": []},
        {"batch_sizes": [0]},
        {"batch_sizes": 10**9},
        {"batch_sizes": [4, None]},
        {"draws": 0},
        {"draws": 101},
        {"draws": "5"},
    ],
)
def test_no_batch_is_refused(gradients, bad):
    with pytest.raises(UsageError, match="draws 1 to 100 batches"):
        scenes.noise(gradients, **bad)


@pytest.mark.parametrize("seed", ["x", None, 2**63])
def test_a_seed_is_a_whole_number(gradients, seed):
    with pytest.raises(UsageError, match="a whole number as its seed"):
        scenes.noise(gradients, seed=seed)


def test_what_autograd_returns_for_many_parameters_will_do():
    model = torch.nn.Linear(2, 3)
    xs = torch.eye(2)
    grads = [torch.autograd.grad(model(x).sum(), model.parameters()) for x in xs]
    assert scenes.noise(grads).source.count("of their 9 directions") == 1


def test_the_batches_of_the_lesson_stay_below_60_kb(gradients):
    assert len(scenes.noise(gradients)._repr_html_()) < 60_000
