"""What the figures say: a title and alt text, from plain data."""

import math

import numpy as np

from course_lib.plots import tensor_parts
from course_lib.text import extent, listed, many, rank_name, rank_noun, unit_of
from course_lib.tracing.events import KINDS, Trace

# --- timeline


def period(trace):
    """Start and length of the whole trace in seconds, the length never 0."""
    return trace.events[0].start, trace.span or 1e-6


def timeline(trace):
    """Title and alt text: who computes how much, what is hidden, who waits."""
    own = {rank: [] for rank in trace.ranks}
    for event in trace.events:
        own[event.rank].append(event)
    length = period(trace)[1]
    shares = {rank_name(rank): _shares(rank, own[rank], length) for rank in own}
    alt = "; ".join(f"{who}: {_parts(trace, share)}" for who, share in shares.items())
    facts = []
    sent = sum(share[1] + share[2] for share in shares.values())
    # a device has one queue for both: there nothing can be hidden
    if sent >= 1 and not isinstance(trace.ranks[0], str):
        hidden = 100 * sum(share[3] for share in shares.values()) / sent
        facts.append(f"{hidden:.0f} % of communication is hidden by compute")
    who = max(shares, key=lambda who: shares[who][4])
    if shares[who][4] >= 1:
        facts.append(f"{who} waits {shares[who][4]:.0f} %")
    lines = [_computing(trace, shares), ", ".join(facts)]
    return "\n".join(filter(None, lines)), alt


def _parts(trace, share):
    """What a rank does with its time; a device that does nothing is idle."""
    compute, sent, wait, *_ = share
    last = f"wait {wait:.0f} %"
    if isinstance(trace.ranks[0], str):
        last = f"idle {max(0, 100 - compute - sent):.0f} %"
    return f"compute {compute:.0f} %, communicate {sent:.0f} %, {last}"


def _computing(trace, shares):
    """The first line of the title: how long it took, who computes how much."""
    length = period(trace)[1]
    scale, unit = unit_of(length)
    word = rank_noun(trace.ranks[0])
    percent = {who: round(share[0]) for who, share in shares.items()}
    head = f"{many(len(percent), word)}, {length * scale:.3g} {unit}"
    if len(percent) > 2 or len(percent) == 2 and len(set(percent.values())) == 1:
        each = extent(percent.values(), " %")
        text = f"{head}: each computes {each} of the time"
        if word != "stage":
            return text
        idle = 100 - sum(share[0] for share in shares.values()) / len(shares)
        return f"{text}, the bubble is {idle:.0f} %"
    (first, share), *rest = percent.items()
    text = f"{head}: {first} computes {share} % of the time"
    return text + "".join(f", {who} {share} %" for who, share in rest)


def _shares(rank, events, length):
    """Percent of compute, communicate, wait, hidden communication and idle waiting."""
    own = Trace(tuple(events), "")
    compute, sent, wait = (own.time(rank, kind) for kind in KINDS)
    idle = own.time(rank, "compute", "wait") - compute
    times = (compute, sent, wait, own.overlap(rank), idle)
    return [100 * seconds / length for seconds in times]


# --- sharding


def samples(counts, names):
    """Title and alt text: who holds how many, what is doubled, what is missing."""
    ranks, samples = counts.shape
    each = extent(counts.sum(1).tolist())
    word = rank_noun(names[0])
    over = f"{many(samples, 'sample')} over {many(ranks, word)}"
    title = f"{over}: each {word} holds {each}"
    times = counts.sum(0)
    if ranks > 1 and counts.all():
        whole = f"all {ranks} {word}s hold all {samples:,} samples"
        title = f"Nothing is sharded: {whole}"
    elif (times > 1).any():
        title += f"\n{_which(times > 1)} held more than once"
    if (times == 0).any():
        title += f"\n{_which(times == 0)} held by no {word}"
    sizes = zip(names, counts.sum(1), strict=True)
    return title, ", ".join(f"{rank_name(r)} holds {n:,}" for r, n in sizes)


def _which(found):
    """`sample 3 is`, `samples 0 and 1 are`, or `12 samples are`."""
    numbers = np.flatnonzero(found).tolist()
    if len(numbers) > 3:
        return f"{len(numbers):,} samples are"
    some = listed(numbers)
    return f"sample {some} is" if len(numbers) == 1 else f"samples {some} are"


def indices(shape, parts):
    """Indices in Python's way: `[0:2, :]`."""
    spans = zip(shape, parts, strict=True)
    texts = (":" if part == (0, n) else f"{part[0]}:{part[1]}" for n, part in spans)
    return f"[{', '.join(texts)}]"


def tensor(tensor, held, short):
    """Title and alt text: the short form, how much each rank holds, how it adds up."""
    shape, placements, mesh = tensor
    total = math.prod(shape)
    sizes = [math.prod(stop - start for start, stop in parts) for parts in held]
    much = "all" if min(sizes) == total else f"{extent(sizes)} of"
    over = " × ".join(map(str, mesh)) + " mesh"
    over = many(mesh[0], "rank") if len(mesh) == 1 else f"a {over}"
    title = f"{short} over {over}: each rank holds {much} {total:,} values"
    copies = dict.fromkeys(("Partial", "Replicate", "Shard"), 1)
    for placement, ranks in zip(placements, mesh, strict=True):
        copies[tensor_parts.kind(placement)] *= ranks
    if copies["Replicate"] > 1 and len(mesh) > 1:
        title += f"\neach part is held by {copies['Replicate']} ranks"
    if copies["Partial"] > 1:
        title += f"\neach is a partial sum: add those of {copies['Partial']} ranks"
    parts = (indices(shape, part) for part in held)
    return title, ", ".join(f"rank {r} holds {part}" for r, part in enumerate(parts))
