"""How ranks ended, which of them explains a failure, and what helps against it."""

import linecache
import os
import signal
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from course_lib.accelerators import missing
from course_lib.errors import LaunchError
from course_lib.launching.protocol import Record
from course_lib.launching.watchdog import explain as explain_stall
from course_lib.launching.watchdog import mismatch, sharded
from course_lib.launching.watchdog.responder import Answer
from course_lib.launching.watchdog.stall import RankState, rank_state, running_stacks
from course_lib.stacks import (
    is_learners,
    parse_tracebacks,
    place,
    show_folded,
    show_stack,
    whereabouts,
)
from course_lib.system import host
from course_lib.text import ranks_named, sentences, signal_name

# what torch.distributed raises when another rank is gone: a symptom, not the cause
_LOST = ("RuntimeError", "DistBackendError", "DistNetworkError", "DistStoreError")
_SYMPTOMS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Connection refused",
    "recvValue failed",
    "NCCL error",
    "failed to connect",
)

# a lack of room, in shared memory or on a disk
_SPENT = (
    "No space left on device",
    "unexpected pos",  # torch.save on a full disk
    "PytorchStreamWriter failed",
)
_SHARED = ("shared memory", "Bus error")
_GLOO = "third_party/gloo"  # it names its file where sizes do not fit
_ITSELF = "<--> [none]"  # gloo, of a pair that was never connected
_SHM = "/dev/shm"
_LITTLE = 1 << 20  # bytes free
_AGAIN = {"raised": "raised the same.", "unsendable": "returned the same."}
_BRIEF = 160  # characters of how another rank ended


@dataclass(frozen=True)
class RankExit:
    """How one rank ended: exit code (negative: the signal), when, and what it wrote.

    `place` is which local rank of which node it was, of several; `printed` the last
    lines of its output.
    """

    rank: int
    code: int
    at: float  # seconds on the machine's monotonic clock
    record: Record = Record()
    place: str = ""
    printed: str = ""

    @property
    def status(self) -> str:
        """`returned`, `raised`, `exited`, `unsendable`, `killed` or `left`."""
        status = self.record.status
        if not status or (status == "returned" and self.code):
            return "killed" if self.code < 0 else "left"
        return status

    @property
    def failed(self) -> bool:
        """True unless the function returned and the process ended well after it."""
        return self.status != "returned"

    @property
    def moment(self) -> float:
        """When it failed: as it noted itself, else when its end was seen."""
        return self.at if self.record.at is None else self.record.at

    @property
    def is_symptom(self) -> bool:
        """True if it failed because another rank was gone."""
        return self.status in ("raised", "exited") and any(
            map(_tells_of_loss, self.record.chain)
        )


def _tells_of_loss(cause):
    return cause.kind in _LOST and any(phrase in cause.text for phrase in _SYMPTOMS)


def culprit(ends: Collection[RankExit]) -> RankExit | None:
    """Return the rank that failed first, and not because of another, or None."""
    failed = [end for end in ends if end.failed]
    return min(failed, key=lambda end: (end.is_symptom, end.moment), default=None)


def settled(ends: Collection[RankExit]) -> bool:
    """Return True once the failures so far explain themselves."""
    first = culprit(ends)
    # a rank that lost its peer: the peer's own end, a clean return too, explains it
    return first is not None and (
        not first.is_symptom or any(not end.failed for end in ends)
    )


def explain(ends: list[RankExit], states: list[RankState], *, name: str) -> LaunchError:
    """Return the error for a failed launch of ranks in these states, in their order."""
    end = culprit(ends)
    assert end is not None, "no rank failed"
    record, stacks = end.record, running_stacks(states)
    frames = record.frames or states[end.rank].frames  # of a rank that crashed
    gone = _gone(end, ends)
    unlike = _unlike(end, states)
    if gone:
        what = _lost(end, gone, states, name=name)
        what += "" if unlike else f" {_SAME_CALLS}"
    else:
        what = _what(end, name, asks=len(states) > 1 and not unlike)
    node = f" ({end.place})" if end.place else ""
    told = {other.rank: other for other in ends if other.rank not in gone}
    others = [state for state in states if state.rank not in (end.rank, *gone)]
    about_gpus = filter(None, [_about_gpus(end, len(states))])
    kind = "lost" if gone else end.status
    return LaunchError(
        f"rank {end.rank} of {len(states)}{node} {what}",
        what=what,
        text=record.text,
        lines=show_stack(frames),
        folded=show_folded(frames),
        notes=[
            *_others(end, told, others, name=name),
            *unlike,
            *(_sharded(told, states) if gone or unlike else ()),
            *record.hints,
            *advice(_reason(end)),
            *_about_frames(end, frames),
            *about_gpus,
        ],
        rank=end.rank,
        details=record.details,
        kind=record.kind if kind == "raised" else kind,
        own=filter(is_learners, parse_tracebacks(record.details)),
        where=stacks if kind != "lost" else {end.rank: list(record.frames), **stacks},
    )


def _unlike(end, states):
    """Return what ranks did unlike each other, where that can end one of them."""
    crashed = end.status == "killed" and end.code == -signal.SIGABRT
    if not (end.is_symptom or crashed or _GLOO in _reason(end)):
        return []
    sentence = (
        mismatch.unlike_groups(states)
        or mismatch.unlike_calls(states, len(states))
        or _dropped(end, states)
    )
    return sentences(sentence)


def _sharded(told, states):
    """Return who was in what gathers shards, where ranks did not call the same."""
    lost = {rank: end for rank, end in told.items() if end.record.frames}
    at = [_as_it_waited(lost[s.rank], s) if s.rank in lost else s for s in states]
    # who still works may yet come to it
    there = [state for state in at if state.state != "works"]
    return sentences(sharded.gathers(there).strip())


def _dropped(end, states):
    return explain_stall.dropped_sends([_as_it_waited(end, states[end.rank])], states)


def _as_it_waited(end, state):
    """The state of a rank that lost its connection: it fails with the same stack."""
    return rank_state(end.rank, Answer((end.record.frames,), state.calls), last=True)


def _reason(end):
    """Return what the rank said of its end, for `advice`."""
    texts = [cause.text for cause in end.record.chain]
    return "\n".join([*texts, "Bus error" if end.code == -signal.SIGBUS else ""])


def _about_frames(end, frames):
    """Return what helps an error that its message does not tell, but its place."""
    files = [frame.file for frame in frames]
    asks = frames and frames[-1].file.endswith(("bdb.py", "getpass.py"))
    if end.status == "raised" and (asks or _NO_LINE in end.record.text):
        return [
            "A rank has no keyboard: ask before the launch and pass the answer to it."
            " In place of a debugger print, or read cl.last_error().details."
        ]
    if end.status == "raised" and any(file.endswith(_SHARER) for file in files):
        return [
            "A tensor in a queue is fetched from the process that put it there, and"
            " that one has ended. Let it live until the tensor is taken, or put"
            " tensor.numpy(), which travels whole."
        ]
    if end.code == -signal.SIGSEGV and files and files[-1].endswith(_DDP):
        return [
            "DistributedDataParallel over gloo crashes in some versions of PyTorch"
            " where TORCH_DISTRIBUTED_DEBUG is DETAIL: INFO does not."
        ]
    return []


_NO_LINE = "EOF when reading a line"  # input(), of an empty standard input
_SHARER = os.path.join("multiprocessing", "resource_sharer.py")
_DDP = os.path.join("torch", "nn", "parallel", "distributed.py")


def _about_gpus(end, ranks):
    """Return what helps a rank that wanted a GPU which is not there, or ""."""
    virtual = end.record.virtual
    if end.status == "exited":
        return missing.help_exit(f"{_reason(end)}\n{end.printed}", virtual=virtual)
    learners = [frame.file for frame in end.record.frames if is_learners(frame)]
    source = "".join(linecache.getlines(learners[-1])) if learners else ""
    return missing.help_ranks(_reason(end), ranks, source=source, virtual=virtual)


def _gone(end, ends):
    """Return the ranks whose clean end explains why `end` lost its connection."""
    returned = [other.rank for other in ends if other.status == "returned"]
    return returned if end.is_symptom else []


_SAME_CALLS = "Every rank must make the same collective calls."


def _lost(end, gone, states, *, name):
    mine = states[end.rank].num_calls
    theirs = {states[rank].num_calls for rank in gone}
    call = after = ""
    if len(theirs) == 1 and mine > max(theirs):
        call, after = f" in its collective call {mine}", f", after {max(theirs)}"
    return (
        f"lost its connection{call}: {ranks_named(gone)} had returned from {name}"
        f" already{after}."
    )


def _what(end, name, *, asks=True):
    """How a rank ended; of some signals with a question, if it `asks`."""
    record = end.record
    if end.status == "raised":
        return f"raised {record.kind}: {record.text}"
    if end.status == "exited":
        return f"left by sys.exit({record.exit}) before {name} returned"
    if end.status == "unsendable":
        return (
            f"returned a {record.kind}, which cannot be sent back to the notebook"
            f" ({record.text})."
            " Return tensors, numbers, strings, lists or dicts instead;"
            " of a model its state_dict()."
        )
    when = "after" if record.status == "returned" else "before"
    if end.status == "killed":
        return f"was killed by {_signal(-end.code, asks)} {when} {name} returned"
    return f"ended with exit code {end.code} {when} {name} returned"


_SHAPES = ": do all ranks pass tensors of the same shape and type?"
_MEANINGS = {
    signal.SIGBUS: "a crash in compiled code, as when shared memory is full",
    signal.SIGSEGV: "a crash in compiled code",
    signal.SIGABRT: "a crash in compiled code",
    signal.SIGKILL: (
        "from outside; on a machine short of memory this is"
        " the system's out-of-memory killer"
    ),
}


def _signal(number, asks):
    meaning = _MEANINGS.get(number, "")
    meaning += _SHAPES if asks and number == signal.SIGABRT else ""
    name = signal_name(number)
    return f"{name} ({meaning})" if meaning else name


def _others(end, told, states, *, name):
    """Where the other ranks were, or how they ended: a line for each thing to say.

    `told` are the ranks that have ended, or written how they failed.
    """
    ranks = defaultdict(list)
    for state in states:
        other = told.get(state.rank)
        words = _ended(other, end, state, name=name) if other else _stood(state, name)
        ranks[words].append(state.rank)
    return [_sentence(who, words) for words, who in ranks.items()]


def _sentence(ranks, words):
    if len(ranks) > 1 and words.startswith("was "):
        words = words.replace("was", "were", 1)
    return f"{ranks_named(ranks)} {words}"


def _ended(other, end, state, *, name):
    """How another rank than the reported one ended, as it wrote itself."""
    frames = other.record.frames
    if other.status == "returned":
        return f"had left {name} already"
    if other.status == "raised" and _tells_of_loss(other.record.chain[0]):
        call = _as_it_waited(other, state).call
        into = f" in {call}" if call else ""
        return f"lost the connection{into}: {whereabouts(frames)}"
    what = _what(other, name)
    if what == _what(end, name) and other.is_symptom == end.is_symptom:
        return _AGAIN.get(other.status, "ended the same way.")
    lines = [f" ({place(frame)})" for frame in frames if is_learners(frame)]
    after = ", having lost the connection" if other.is_symptom else ""
    return "".join([_brief(what), *lines[-1:], after])


def _brief(text):
    line = " ".join(text.split())
    return line if len(line) <= _BRIEF else f"{line[:_BRIEF]} ..."


def _stood(state, name):
    """Where a rank was that had not ended."""
    has_line = any(map(is_learners, state.frames))
    if has_line or (state.frames and state.state in ("works", "waits")):
        return f"was stopped in {whereabouts(state.frames)}"
    # of these there is no line of the learner's, and this is why
    return {
        "starts": f"had not begun {name} yet",
        "raises": "had raised an exception, and did not say in time which",
        "ends": f"had left {name} already",
        "stopped": "had been halted by a signal (SIGSTOP or SIGTSTP)",
    }.get(state.state, "did not answer in time")


def advice(text: str) -> list[str]:
    """Return lines that say what helps against an error: which place is full.

    Nothing if the message tells neither of a lack of room nor of a missing connection.
    """
    if _ITSELF in text:
        return ["gloo does not connect a rank with itself: copy the tensor instead."]
    lacks = any(phrase in text for phrase in _SPENT)
    if any(phrase in text for phrase in _SHARED) or (lacks and _is_full(_SHM)):
        return [_about_shared()]
    folders = dict.fromkeys([host.temporary_folder(), os.curdir]) if lacks else []
    return [
        f"{folder} has no room left: remove files there, or write elsewhere"
        " (the variable TMPDIR names the folder for temporary files)."
        for folder in folders
        if folder and _is_full(folder)
    ]


def _about_shared():
    free, size = _room(_SHM)
    when = "."
    if free >= _LITTLE:  # who asked has ended by now, and gave back what it had
        when = (
            " now, and had less when it was asked for more. A loader keeps up to"
            " num_workers * prefetch_factor batches there, on each rank."
        )
    return (
        f"Shared memory, {_SHM}, has {_mb(free)} of {_mb(size)} free{when} Tensors"
        " shared between processes, and batches of DataLoader workers, need room there:"
        " num_workers=0 needs none, docker run --shm-size=2g gives more."
    )


def _is_full(folder):
    return _room(folder)[0] < _LITTLE


def _room(folder):
    """Bytes free and bytes in all; plenty where that cannot be asked."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return _LITTLE, _LITTLE
    return system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize


def _mb(size):
    return f"{size / 1e6:,.1f} MB"
