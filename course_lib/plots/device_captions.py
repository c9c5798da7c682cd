"""What the figures of devices say: titles and alt text, from plain data."""

from collections import Counter

from course_lib.accelerators.memory import KINDS
from course_lib.text import listed, many, size, unit_of


def _share(part, whole):
    return f"{100 * part / whole:.0f} %"


def _kinds(held):
    return ", ".join(f"{k} {size(held[k])}" for k in KINDS if held.get(k)) or "nothing"


def _largest(held):
    """`activations` and `61 %`: the kind that takes the largest share, and that."""
    kind = max(KINDS, key=lambda k: held.get(k, 0))
    return kind, _share(held.get(kind, 0), sum(held.values()))


def source(trace):
    """The source of a figure of bytes: virtual GPUs count them, and model only time."""
    modelled = trace.source.startswith("modelled")
    return f"bytes counted, time {trace.source}" if modelled else trace.source


# --- memory


def memory(groups):
    """Title and alt text of `{label: Memory}`: who holds how much, and of what kind."""
    parts = [
        f"{label} {device}: {_kinds(held)}".lstrip()
        for label, memory in groups.items()
        for device, held in memory.held.items()
    ]
    title = _compared(groups) if len(groups) > 1 else _single(*groups.values())
    return title, "; ".join(parts)


def _single(memory):
    totals = {device: memory.total(device) for device in memory.held}
    most = max(totals, key=totals.get)
    if not totals[most]:
        return f"{listed(totals)} {'hold' if len(totals) > 1 else 'holds'} nothing"
    kind, share = _largest(memory.held[most])
    fact = f"on {most} the largest share is {kind}, {share}"
    capacity = memory.capacity.get(most)
    if capacity and totals[most] >= 0.8 * capacity:
        fact += f"; {_share(totals[most], capacity)} full"
    return f"{_holding(totals, most)}\n{fact}"


def _holding(totals, most):
    """`vgpu:0 holds 12.6 MB, vgpu:1 4.2 MB`, or the most and the rest."""
    texts = {d: size(total) if total else "nothing" for d, total in totals.items()}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        return f"Each of {len(texts)} devices holds {texts[most]}"
    rest = [device for device in texts if device != most]
    head = f"{most} holds {texts[most]}"
    if len(rest) <= 2:
        return head + "".join(f", {device} {texts[device]}" for device in rest)
    return f"{head}, the other {len(rest)} hold {_span([totals[d] for d in rest])}"


def _span(counts):
    """`4.2 MB`, or `2 to 4.2 MB`."""
    low, high = size(min(counts)), size(max(counts))
    if low.split()[1] == high.split()[1] and low != high:
        low = low.split()[0]
    return high if low == high else f"{low} to {high}"


def _compared(groups):
    """The fullest device of each label, and the kind that changes most."""
    fullest = {
        label: max(map(memory.total, memory.held)) for label, memory in groups.items()
    }
    devices = {device for memory in groups.values() for device in memory.held}
    who = devices.pop() if len(devices) == 1 else "Fullest device"
    if len(fullest) <= 3:
        each = ", ".join(f"{size(most)} ({label})" for label, most in fullest.items())
    else:
        low, high = (pick(fullest, key=fullest.get) for pick in (min, max))
        each = f"{size(fullest[low])} ({low}) to {size(fullest[high])} ({high})"
    return f"{who}: {each}\n{_change(*list(groups.values())[:: len(groups) - 1])}"


def _change(first, last):
    """The kind that differs most between two memories, summed over devices."""
    sums = [
        {k: sum(held.get(k, 0) for held in memory.held.values()) for k in KINDS}
        for memory in (first, last)
    ]
    kind = max(KINDS, key=lambda k: abs(sums[1][k] - sums[0][k]))
    before, after = (size(total[kind]) for total in sums)
    if sums[0] == sums[1]:
        return "in all as much of every kind"
    return f"the largest change: {kind}, in all {before}, then {after}"


# --- memory over time


def over_time(peaks):
    """Title and alt text of `{device: (bytes, seconds, held by kind)}`."""
    most = max(peaks, key=lambda device: peaks[device][0])
    peak, seconds, held = peaks[most]
    parts = (f"{d} {size(b)} {_when(s)}: {_kinds(h)}" for d, (b, s, h) in peaks.items())
    alt = "Peaks: " + "; ".join(parts)
    if not peak:
        return "No device holds anything", alt
    kind, share = _largest(held)
    title = f"{most} peaks at {size(peak)} {_when(seconds)}, {share} of it {kind}"
    rest = {device: peaks[device][0] for device in peaks if device != most}
    if len(rest) == 1:
        title += "".join(f"\n{d} peaks at {size(count)}" for d, count in rest.items())
    elif rest:
        title += f"\nthe other {len(rest)} peak at {_span(rest.values())}"
    return title, alt


def _when(seconds):
    if seconds <= 0:
        return "at the start"
    scale, unit = unit_of(seconds)
    return f"after {seconds * scale:.3g} {unit}"


# --- transfers


def flow(name, flows):
    """What an arrow says, in parts, of the sizes of its copies, one list per end.

    `copy` and `1 MB`; `3 × copy` and `1 MB` where all are alike, else what they are in
    all; with several ends what goes to or comes from each.
    """
    count = len(flows[0])
    head = f"{count} × {name}" if count > 1 else name
    one = count == 1 or len({part for sizes in flows for part in sizes}) == 1
    text = _span([max(sizes) if one else sum(sizes) for sizes in flows])
    if len(flows) > 1:
        return head, text, "each" if one else "per device"
    return (head, text) if one else (f"{head},", text, "in all")


def transfers(flows):
    """Title and alt text of `{(name, source, target): [bytes]}`."""
    by_name, sent, touched = Counter(), Counter(), Counter()
    for (name, *ends), sizes in flows.items():
        by_name[name] += sum(sizes)
        sent[ends[0]] += sum(sizes)
        touched.update(dict.fromkeys(ends, len(sizes)))
    facts = [_by_name(by_name)] if len(by_name) > 1 else []
    copies = sum(map(len, flows.values()))
    hubs = [device for device, count in touched.items() if count == copies]
    if len(touched) > 2 and len(hubs) == 1:
        facts.append(f"{hubs[0]} sends or receives all of it")
    title = "\n".join([_sending(sent), *facts])
    parts = (f"{s} to {t}: {' '.join(flow(n, [b]))}" for (n, s, t), b in flows.items())
    return title, "; ".join(parts)


def _sending(sent):
    """How much is copied, and who sends the most of it."""
    head = f"{size(sent.total())} copied"
    (most, count), *rest = sent.most_common()
    first = [device for device in sent if size(sent[device]) == size(count)]
    if not rest:
        return f"{head}, all from {most}"
    if len(first) > 1:
        each = listed(first) if len(first) <= 3 else many(len(first), "device")
        most = "" if len(first) == len(sent) else " the most,"
        return f"{head}: {each} send{most} {size(count)} each"
    share = _share(count, sent.total())
    return f"{head}: most leaves {most}, {size(count)} ({share})"


def _by_name(counts):
    """The bytes of each operation; of many the two that move the most, and the rest."""
    shown = counts.most_common(3 if len(counts) == 3 else 2)
    rest = counts.total() - sum(count for _, count in shown)
    texts = [f"{name} {size(count)}" for name, count in shown]
    return ", ".join([*texts, f"the rest {size(rest)}"] if rest else texts)
