"""What the ranks of a launch sent: messages, bytes and rounds, in all and by pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.accelerators.memory import Transfer
from course_lib.display import number_table
from course_lib.text import many, rank_name, size
from course_lib.tracing.messages import RankTraffic
from course_lib.tracing.rounds import find_rounds

_MATRIX = 16  # ranks; a larger matrix is not shown
_UNLIKE = (
    "rank {0.target} received into {0.carries} what rank {0.source} sent as"
    " {1.carries}: its numbers are wrong, and nobody raises. Pass a tensor of the same"
    " type and size."
)
_UNLIKE_CALLS = (
    "ranks passed unlike tensors to one collective: {}. Some numbers are wrong, and"
    " nobody raises. All ranks must pass as many numbers of one type."
)


class Message(NamedTuple):
    """One send: from which rank to which, its bytes, in which round, by which tag.

    In a round each rank sends one message at most, and receives one at most. A message
    comes after all that its sender has received before. So the round depends on the
    program, and not on how fast its ranks are.
    """

    source: int
    target: int
    bytes: int
    round: int
    tag: int = 0


class Collective(NamedTuple):
    """One rank's call of a collective, the bytes that it handed over, and its round."""

    rank: int
    name: str
    bytes: int
    round: int


@dataclass(frozen=True)
class Meter:
    """What each rank sent: `messages` and `collectives` in order, `wire` by pair.

    `messages` are those of `torch.distributed.send` and its relatives. `wire` is what
    left each rank for each other one in all, `wire[source][target]` in bytes: Linux
    counts it at the ranks' sockets, with what collectives send inside and with gloo's
    own notes, some 50 to 150 bytes for a message. It is None where nobody counts.
    `more` are messages and bytes of each rank beyond those listed, `forgotten` the
    calls of collectives that are not listed, `unlike` sentences on messages that were
    received into other tensors than were sent, and on collectives to which ranks passed
    unlike tensors.
    """

    world_size: int
    messages: tuple[Message, ...] = ()
    collectives: tuple[Collective, ...] = ()
    wire: tuple[tuple[int, ...], ...] | None = None
    more: tuple[tuple[int, int], ...] = ()
    forgotten: int = 0
    unlike: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """Return the number of rounds; a collective counts as one."""
        calls: list[Message | Collective] = [*self.messages, *self.collectives]
        return max((call.round for call in calls), default=0)

    def sent(self, rank: int) -> int:
        """Return the bytes of the messages that `rank` sent, by their tensors."""
        beyond = self.more[rank][1] if self.more else 0
        return beyond + sum(m.bytes for m in self.messages if m.source == rank)

    def left(self, rank: int) -> int:
        """Return the bytes that left `rank` for others: `wire`, else its messages."""
        return sum(self.matrix[rank])

    @property
    def busiest(self) -> int:
        """Return the bytes that left the rank that sends most."""
        return max(map(self.left, range(self.world_size)))

    def handed(self, rank: int) -> int:
        """Return the bytes that `rank` handed to collectives."""
        return sum(call.bytes for call in self.collectives if call.rank == rank)

    @property
    def matrix(self) -> tuple[tuple[int, ...], ...]:
        """Return the bytes by source and target: `wire`, else those of messages."""
        if self.wire is not None:
            return self.wire
        rows = [[0] * self.world_size for _ in range(self.world_size)]
        for message in self.messages:
            rows[message.source][message.target] += message.bytes
        return tuple(map(tuple, rows))

    @property
    def source(self) -> str:
        """Return where the bytes of the matrix come from, for figures."""
        ranks = many(self.world_size, "rank")
        if self.wire is None:
            return f"counted: messages of {ranks}; what collectives send is not known"
        return f"counted by Linux: {ranks}, with gloo's notes"

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """Return a transfer for each pair that has bytes, for `cl.plot_transfers`."""
        return tuple(
            Transfer("", rank_name(source), rank_name(target), count, 0, 0)
            for source, row in enumerate(self.matrix)
            for target, count in enumerate(row)
            if count
        )

    def __repr__(self) -> str:
        return f"<Meter: {self._summary()}>"

    def _summary(self) -> str:
        count = len(self.messages) + sum(number for number, _ in self.more)
        texts = [many(self.world_size, "rank"), many(count, "message")]
        calls = len(self.collectives) / self.world_size + self.forgotten
        texts += [many(round(calls), "collective"), many(self.rounds, "round")]
        return ", ".join([*texts, size(sum(map(sum, self.matrix)))])

    def _repr_html_(self) -> str:
        heads = ["messages", "their bytes", "calls of collectives", "handed to them"]
        rows = map(self._row, range(self.world_size))
        table = number_table([*heads, "left the rank"], rows, caption=self._summary())
        notes = [f"<small>{self.source}</small>"]
        if self.world_size > _MATRIX:
            return table + notes[0]
        return table + self._matrix_html() + notes[0]

    def _row(self, rank) -> Iterator[str]:
        sends = sum(message.source == rank for message in self.messages)
        sends += self.more[rank][0] if self.more else 0
        calls = sum(call.rank == rank for call in self.collectives)
        yield from (rank_name(rank), f"{sends:,}", size(self.sent(rank)))
        yield from (f"{calls:,}", size(self.handed(rank)), size(self.left(rank)))

    def _matrix_html(self) -> str:
        heads = (f"to {rank}" for rank in range(self.world_size))
        rows = (
            (f"from {source}", *(size(count) if count else "·" for count in row))
            for source, row in enumerate(self.matrix)
        )
        return number_table(heads, rows, caption="bytes by source and target")


def join_ranks(ranks: list[RankTraffic]) -> Meter:
    """Return what ranks sent, each of which knows only its own calls."""
    steps = find_rounds(ranks)
    messages = tuple(_message(step.sent, step.round) for step in steps if step.sent)
    collectives = tuple(
        Collective(rank, call.name, call.bytes, step.round)
        for step in steps
        for rank, call in step.members
    )
    wire = _wire(ranks)
    # a kernel that counts nothing is no witness
    if wire and messages and not any(map(any, wire)):
        wire = None
    return Meter(
        len(ranks),
        messages,
        collectives,
        wire,
        tuple(rank.more for rank in ranks),
        max(rank.forgotten for rank in ranks),
        tuple(_unlike(steps)),
    )


def _message(post, number):
    return Message(post.source, post.target, post.bytes, number, post.tag)


def _wire(ranks):
    """Return the bytes by pair of ranks, from both ends of their connections."""
    ends = [(rank, *row) for rank, it in enumerate(ranks) for row in it.carried]
    owners = {(end.local, end.remote): (rank, end) for rank, end, _ in ends}
    rows = [[0] * len(ranks) for _ in ranks]
    for source, end, before in ends:
        if other := owners.get((end.remote, end.local)):
            # who ends first has read all, the other one's end is closed by then
            rows[source][other[0]] += max(end.written, other[1].received) - before
    return tuple(map(tuple, rows)) if ends else None


def _unlike(steps):
    """Sentences on what was received into another tensor, or passed to a collective."""
    for step in steps:
        if step.sent and step.taken:
            send, post = step.sent, step.taken
            if (send.bytes, _kind(send)) != (post.bytes, _kind(post)):
                yield _UNLIKE.format(post, send)
        elif step.members:
            first = step.members[0][1]
            names = {call.name for _, call in step.members}
            fit = all(first.fits(call) for _, call in step.members)
            if len(names) == 1 and not fit:
                yield _UNLIKE_CALLS.format(_listed(step.members))


def _listed(members):
    return ", ".join(f"rank {rank} calls {call}" for rank, call in sorted(members))


def _kind(post):
    return post.carries.partition("[")[0]
