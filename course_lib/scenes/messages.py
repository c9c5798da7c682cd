"""The messages that the ranks of a launch sent, round by round."""

from collections import Counter, defaultdict

from course_lib.errors import UsageError
from course_lib.scenes.arguments import real_number
from course_lib.scenes.arrows import room
from course_lib.scenes.collective import checked_ranks, pairs, tensors_text, way
from course_lib.scenes.items import Item, Moment, label
from course_lib.scenes.scene import WIDTH, Scene
from course_lib.scenes.sent_bars import HIGH, LARGEST, LEFT, Panel, Sent, Tally
from course_lib.text import many, ranks_named, short, size

_MOST = 15  # rounds of a run that are shown one by one


def messages(meter, *, tensor: float | None = None) -> Scene:
    """Play the messages that the ranks of a launch really sent, round by round.

    `meter` has the `world_size` and the `messages`, each with source, target, bytes and
    round. With `tensor`, the bytes of one, bills are said in tensors, too. After 15
    rounds the rest is one moment.

    Errors: `UsageError` for what is no meter or no size, and above 8 ranks.
    """
    if not hasattr(meter, "messages"):
        raise UsageError(
            "messages() needs the meter of a launch, such as `results.meter`: "
            f"found {short(meter)}"
        )
    if tensor is not None:
        tensor = real_number("tensor", tensor, least=1)
    [ranks] = checked_ranks(meter.world_size)
    titles, steps = zip(*_played(meter, ranks, tensor))
    most = max(steps[-1].bill) or 1
    panel = Panel(LEFT, (WIDTH - LEFT) // ranks, HIGH + 36, HIGH / most, size)
    below = panel.base + LARGEST + 30
    moments = []
    for number, (title, step) in enumerate(zip(titles, steps)):
        items = [*panel.items(step, below), *panel.blocks(steps, number)]
        moments.append(Moment(title, items + list(_amounts(panel, step, tensor))))
    return Scene(
        moments,
        height=below + room(pairs(step.moves) for step in steps),
        source=f"measured: the messages of {many(ranks, 'rank')}",
        seconds=1.2,
    )


def _played(meter, ranks, tensor):
    """Yield a title and what was sent: before round 1, after each, in the end."""
    rounds, every = defaultdict(Counter), Counter()
    for message in meter.messages:
        rounds[message.round][message.source, message.target] += message.bytes
        every[message.source] += message.bytes
    unlisted = getattr(meter, "more", ())
    every += Counter({rank: count for rank, (_, count) in enumerate(unlisted)})
    bill: Counter[int] = Counter()
    yield f"{many(ranks, 'rank')}, and nothing is sent yet.", _step(bill, ranks)
    for number in sorted(rounds)[:_MOST]:
        moves = [
            Sent(source, target, count)
            for (source, target), count in rounds[number].items()
        ]
        for (source, _), count in rounds[number].items():
            bill[source] += count
        yield f"Round {number}: {_what(moves, ranks)}.", _step(bill, ranks, moves)
    step = _step(every, ranks)
    rest = "" if bill == every else "The rest is not shown one by one. "
    when = "all" if any(map(any, unlisted)) else many(len(rounds), "round")
    text = f"{rest}In {when} {_most(step.bill, tensor)}"
    yield text if any(step.bill) else "No rank sent a message.", step


def _step(bill, ranks, moves=()):
    return Tally([bill[rank] for rank in range(ranks)], moves)


def _what(moves, ranks):
    amounts = {move.amount for move in moves}
    if len(moves) == 1:
        return f"rank {moves[0].source} sends {size(*amounts)} {way(moves, ranks)}"
    if len(moves) == ranks and len(amounts) == 1:
        return f"each rank sends {size(*amounts)} {way(moves, ranks)}"
    total = size(sum(move.amount for move in moves))
    return f"{many(len(moves), 'message')}, {total} in all"


def _most(bill, tensor):
    most = max(bill)
    who = ranks_named([rank for rank, sent in enumerate(bill) if sent == most])
    text = f"{who} sent most" if len({*bill}) > 1 else "each rank sent"
    share = f", {tensors_text(most / tensor)}" if tensor else ""
    return f"{text}: {size(most)}{share}."


def _amounts(panel, step, tensor):
    """Yield the ground of the bars, the bill of each rank above its own."""
    yield Item("ground", 0, panel.base, WIDTH, 0, "line faded")
    for rank, amount in enumerate(step.bill):
        texts = [size(amount), *([tensors_text(amount / tensor)] if tensor else [])]
        y = panel.base - amount * panel.scale + 7
        for number, text in enumerate(texts[::-1], 1):
            at = panel.middle(rank), y - 15 * number
            yield label(f"bill {rank} {number}", at, text, role="label middle")
        foot = panel.middle(rank), panel.base + 10
        yield label(f"foot {rank}", foot, f"rank {rank}", role="label middle soft")
