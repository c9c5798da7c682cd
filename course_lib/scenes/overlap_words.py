"""What happens when in measured steps, in words: titles, notes, alt text."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from course_lib.scenes.items import cut
from course_lib.scenes.overlap_steps import PlayedStep
from course_lib.text import duration, listed, many, size

NAME = 140  # units of a run's name
_SHORT = 20  # letters of a gradient's name
_NEAR = 150  # of so many parts of the time, what is in one is seen as one


def stops(
    steps: Mapping[str, PlayedStep], most: int
) -> Iterator[tuple[float, list[str]]]:
    """Yield times in seconds at which something comes or goes, each with what.

    There are `most` or fewer, the first is when backward begins.
    """
    happens = sorted(
        (time, place, kind, number)
        for place, step in enumerate(steps.values())
        for time, kind, number in _happens(step)
        if time > 0
    )
    yield 0.0, ["backward begins"]
    apart = happens[-1][0] / _NEAR if happens else 0.0
    groups = _groups(happens, apart)
    while len(groups) > most:
        apart *= 1.3
        groups = _groups(happens, apart)
    for group in groups:
        texts = []
        for place, (name, step) in enumerate(steps.items()):
            if them := [it[2:] for it in group if it[1] == place]:
                texts.append(f"{named(name)}{_said(step, them)}")
        yield group[-1][0], texts


def named(name: str) -> str:
    """Return what stands before a sentence about a run: `DDP: `, or nothing."""
    return f"{cut(name, NAME)}: " if name else ""


def short_name(name: str) -> str:
    """Return the name of a gradient, or its end."""
    return name if len(name) <= _SHORT else f"…{name[1 - _SHORT :]}"


def _happens(step):
    for number, gradient in enumerate(step.ready):
        yield gradient.time, "come", number
    for index, it in enumerate(step.sent):
        yield it.start, "begin", index
        yield it.stop, "end", index


def _groups(happens, apart):
    groups = []
    for it in happens:
        if groups and it[0] - groups[-1][0][0] <= apart:
            groups[-1].append(it)
        else:
            groups.append([it])
    return groups


def _said(step, happened):
    """Say what comes, begins and ends in a run."""
    kinds = defaultdict(list)
    for kind, number in happened:
        kinds[kind].append(number)
    texts = [_coming(step, kinds["come"])] if kinds["come"] else []
    for kind in ("begin", "end"):
        if them := [step.sent[index] for index in kinds[kind]]:
            texts.append(f"{_titles(them)} {kind}{'s' if len(them) == 1 else ''}")
    return ", ".join(texts)


def _titles(sent):
    """Return `all-reduce 2 (8.4 MB)`, or several by their numbers or names."""
    if len(sent) == 1:
        return f"{sent[0].title} ({size(sent[0].bytes)})"
    if len(sent) > 3:
        return many(len(sent), "message")
    if all(it.number for it in sent):
        return f"all-reduces {listed(it.number for it in sent)}"
    return listed(it.title for it in sent)


def _coming(step, come):
    names = [short_name(step.ready[i].name) for i in come]
    what = f"{listed(names)} come" if len(come) < 3 else f"{len(come)} gradients come"
    what += "s" if len(come) == 1 else ""
    bucket = step.bucket_of(come[-1])
    if not bucket:
        return f"{what} ({size(sum(step.ready[i].bytes for i in come))})"
    held, whole = step.filled(come[-1])
    if come[-1] == step.buckets[bucket][-1]:
        return f"{what}, bucket {bucket} is full ({size(whole)})"
    return f"{what}, bucket {bucket} holds {size(held)} of {size(whole)}"


# --- of the whole figure


def result(steps: Mapping[str, PlayedStep]) -> str:
    """Say how much of each run's communication lies under its backward."""
    texts = []
    for name, step in steps.items():
        who = f"{cut(name, NAME)} " if name else ""
        share = step.hidden / step.traffic if step.traffic else 0.0
        told = f"{100 * share:.0f} % of {duration(step.traffic)}"
        texts.append(f"{who}{told if step.traffic else 'sends nothing'}")
    return f"Communication under backward: {', '.join(texts)}."


def alt(steps: Mapping[str, PlayedStep]) -> str:
    """Say what each run sends, for who cannot see it; of many the first six."""
    texts = []
    for name, step in steps.items():
        ways = [
            f"{it.title}, {size(it.bytes)}, {duration(it.stop - it.start)}"
            for it in step.sent[:6]
        ]
        more = f"; {len(step.sent) - 6} more" if len(step.sent) > 6 else ""
        came = f"{many(len(step.ready), 'gradient')}; " if step.ready else ""
        texts.append(f"{named(name)}{came}{'; '.join(ways) or 'nothing is sent'}{more}")
    return ". ".join(texts)


def source(steps: Mapping[str, PlayedStep]) -> str:
    """Say where the times come from, and what is not known."""
    notes = dict.fromkeys(step.source for step in steps.values())
    if any(step.ready for step in steps.values()):
        notes["gradients: when their hooks ran"] = None
    for name, step in steps.items():
        if not step.ready:
            notes[f"{named(name)}no marks of gradients in this step"] = None
        for reason in dict.fromkeys(step.why.values()):
            notes[f"{named(name)}gradients in no known all-reduce, {reason}"] = None
    return "; ".join(filter(None, notes))
