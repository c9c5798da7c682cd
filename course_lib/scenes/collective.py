"""Collectives as chunks that move from rank to rank, round by round."""

from typing import NamedTuple

from course_lib.accelerators.collectives import COLLECTIVES, Move, Schedule
from course_lib.scenes.arguments import whole_numbers
from course_lib.scenes.arrows import arrows, room
from course_lib.scenes.items import Item, Moment, fitting, label
from course_lib.scenes.scene import WIDTH, Scene, varied
from course_lib.text import listed, many

_MOST = 8  # ranks, as many as there are colours
_LEFT, _HEAD, _HIGH = 52, 22, 144  # x of the first rank, of its name, of its chunks
_WIDEST, _GAP = 136, 3  # a chunk, and from one to the next
_BEFORE = {
    "broadcast": "rank 0 has a tensor, the others have room for it",
    "all-gather": "each has one chunk, and room for those of the others",
    "all-to-all": "each has one chunk for each rank",
}
_AFTER = {
    "broadcast": "every rank has the tensor of rank 0",
    "reduce": "rank 0 has the sum",
    "all-reduce": "every rank has the whole sum",
    "all-gather": "every rank has the chunks of all",
    "reduce-scatter": "each rank has one chunk of the sum",
    "all-to-all": "each rank has one chunk of each rank",
}


class Piece(NamedTuple):
    """What a rank gave to a chunk; without an origin, the sum of all ranks."""

    id: str
    origin: int | None


class Flight(NamedTuple):
    """Pieces of a chunk that a move takes along, or copies of those that stay."""

    move: Move
    chunk: int
    pieces: tuple[Piece, ...]
    copied: bool


def collective(*, ranks=4) -> Scene:
    """Play the collectives: with each round their chunks move from rank to rank.

    `ranks` is a number, or a list for a slider whose first value is shown first. What
    was added bears the number of each rank that is in it.

    Errors: `UsageError` for less than 1 or more than 8 ranks.
    """
    options: dict[str, list] = {
        "collective": list(COLLECTIVES),
        "ranks": checked_ranks(ranks),
    }
    schedules = {
        (name, count): make(count)
        for name, make in COLLECTIVES.items()
        for count in options["ranks"]
    }
    top = 4 + room(pairs(m) for plan in schedules.values() for m in plan.rounds)

    def moments(**values):
        return _moments(Grid(schedules[tuple(values.values())], top))

    return varied(
        moments,
        options,
        height=top + _HEAD + _HIGH + 22,
        source="computed from the algorithm; a part that was added is drawn only there",
        seconds=1.2,
    )


def checked_ranks(ranks) -> list[int]:
    """Return one number of ranks or several as a list, each from 1 to 8."""
    return whole_numbers("ranks", ranks, most=_MOST)


def pairs(moves) -> list[tuple[int, int]]:
    """Return source and target of each move."""
    return [(move.source, move.target) for move in moves]


def tensors_text(count) -> str:
    """Say a number of them: `1 tensor`, `1.75 tensors`."""
    return f"{round(float(count), 3):g} tensor{'' if count == 1 else 's'}"


# --- which pieces are where


def plays(plan: Schedule):
    """Yield what is where before each round, and its flights; then the end.

    Pieces by (rank, chunk); after the last round they are shown twice, the second time
    as sums.
    """
    cells = {
        (rank, chunk): (Piece(f"{rank} {chunk}", rank),)
        for rank, own in enumerate(plan.starts)
        for chunk in own
    }
    for moves in plan.rounds:
        after = _joined(cells, plan.ranks)
        flights = list(_flights(moves, plan, after))
        yield cells, flights
        for flight in flights:
            if not flight.copied:
                del after[flight.move.source, flight.chunk]
        for move, chunk, pieces, _ in flights:
            own = after.get((move.target, chunk), ()) if move.adds else ()
            after[move.target, chunk] = own + pieces
        cells = after
    yield cells, []
    yield _joined(cells, plan.ranks), []


def _flights(moves, plan, has):
    """Yield what flies: what is added elsewhere, and a copy of what a rank keeps."""
    for move in moves:
        for chunk in move.chunks:
            pieces = has[move.source, chunk]
            copied = not move.adds and chunk in plan.ends[move.source]
            if copied:
                ids = (f"{piece.id} {move.target}" for piece in pieces)
                pieces = tuple(p._replace(id=name) for p, name in zip(pieces, ids))
            yield Flight(move, chunk, pieces, copied)


def _joined(cells, ranks):
    """Make the parts of all ranks one sum."""
    return {
        place: (Piece(f"sum {place}", None),) if len(pieces) == ranks > 1 else pieces
        for place, pieces in cells.items()
    }


# --- where they are drawn


class Grid(NamedTuple):
    """Ranks beside each other below `top`, the chunks of each below each other."""

    plan: Schedule
    top: float

    def middle(self, rank) -> float:
        """Return the middle of a rank."""
        return _LEFT + round((WIDTH - _LEFT) / self.plan.ranks * (rank + 0.5))

    def place(self, rank, row) -> tuple:
        """Return place and size of a chunk."""
        pitch = (WIDTH - _LEFT) / self.plan.ranks
        wide = int(min(pitch - 9, _WIDEST) / self.plan.ranks) * self.plan.ranks
        high = _HIGH // self.plan.chunks
        y = self.top + _HEAD + high * row
        return self.middle(rank) - wide // 2, y, wide, high - _GAP

    def row(self, rank, chunk) -> int:
        """Return the row of a chunk; a swapped one lies where the own one was."""
        source, target = divmod(chunk, self.plan.chunks)
        swapped = self.plan.collective == "all-to-all" and rank != source
        return source if swapped else target

    def pieces(self, place, pieces, *, role=""):
        """Yield the pieces of a chunk: full is the sum, each rank adds its share."""
        rank, chunk = place
        x, y, wide, high = self.place(rank, self.row(rank, chunk))
        ranks = self.plan.ranks
        adds = any(move.adds for moves in self.plan.rounds for move in moves)
        part = wide / ranks if adds else wide
        what = f"chunk {chunk}" if self.plan.chunks > 1 else "the tensor"
        for number, (name, origin) in enumerate(pieces):
            if origin is None:
                text, tip = f"sum of {ranks}", f"{what}: the sum of all ranks"
                yield Item(name, x, y, wide, high, f"card{role}", text, tip)
                continue
            text, tip = str(origin), f"{what} of rank {origin}"
            if self.plan.collective == "all-to-all":
                text = " → ".join(map(str, divmod(chunk, ranks)))
                tip = "from rank {} for rank {}".format(*divmod(chunk, ranks))
            elif not adds:
                text = fitting(f"rank {origin}", wide) or text
            at = x + part * number, y, part, high
            yield Item(name, *at, f"rank-{origin}{role}", text, tip)


# --- what is to be seen


def _moments(grid):
    plan = grid.plan
    says = (_says(moves, plan) for moves in plan.rounds)
    rounds = [f"Round {number}: {text}." for number, text in enumerate(says, 1)]
    titles = [_first(plan), *rounds, _last(plan)]
    if not rounds:
        titles = ["1 rank: nothing is sent."]
    return [
        Moment(title, [*_ranks(grid, number), *_chunks(grid, *play)])
        for number, (title, play) in enumerate(zip(titles, plays(plan)))
    ]


def _ranks(grid, number):
    """Yield the ranks, the arrows of this round, and the bill so far."""
    plan, (_, _, wide, _) = grid.plan, grid.place(0, 0)
    middles = [grid.middle(rank) for rank in range(plan.ranks)]
    for moves in plan.rounds[number - 1 : number] if number else ():
        yield from arrows(pairs(moves), middles, 6)
    for row in range(plan.chunks):
        _, y, _, high = grid.place(0, row)
        text = f"chunk {row}" if plan.chunks > 1 else "tensor"
        yield label(f"label {row}", (0, y + high / 2), text, role="label soft")
    for rank, middle in enumerate(middles):
        at = middle - wide // 2 - 3, grid.top, wide + 6, _HEAD + _HIGH + 1
        yield Item(f"box {rank}", *at, "box", f"rank {rank}")
    text = f"sent so far by the busiest rank: {tensors_text(max(plan.sent(number)))}"
    yield label("bill", (_LEFT, grid.top + _HEAD + _HIGH + 14), text)


def _chunks(grid, cells, flights):
    """Yield what lies where; what the next round will copy is there, unseen."""
    rows = {(rank, grid.row(rank, chunk)) for rank, chunk in cells}
    for rank in range(grid.plan.ranks):
        for row in range(grid.plan.chunks):
            if (rank, row) not in rows:
                x, y, w, h = grid.place(rank, row)
                yield Item(f"place {rank} {row}", x, y, w, h, "place")
    for place, pieces in cells.items():
        yield from grid.pieces(place, pieces)
    for move, chunk, pieces, copied in flights:
        if copied:
            yield from grid.pieces((move.source, chunk), pieces, role=" gone")


def _first(plan):
    cut = f", cut into {plan.chunks} chunks" if plan.chunks > 1 else ""
    before = _BEFORE.get(plan.collective, f"each has a tensor{cut}")
    name = plan.collective.capitalize()
    return f"{name}, {plan.algorithm}: {many(plan.ranks, 'rank')}; {before}."


def _last(plan):
    who = "The busiest" if len({*plan.sent()}) > 1 else "Each"
    after = f"After {many(len(plan.rounds), 'round')} {_AFTER[plan.collective]}."
    return f"{after} {who} sent {tensors_text(plan.busiest)}."


def _says(moves, plan):
    """Say what happens in a round, as in "rank 1 sends one chunk to rank 0"."""
    adds = moves[0].adds
    what = "one chunk" if plan.chunks > 1 else "the whole tensor"
    what = f"{what} {way(moves, plan.ranks)}"
    if len(moves) == 1:
        end = ", which adds it" if adds else ""
        return f"rank {moves[0].source} sends {what}{end}"
    if len(moves) == plan.ranks:
        does = "adds" if adds else "keeps"
        return f"each rank sends {what} and {does} what it gets"
    end = ", where it is added" if adds else ""
    return f"ranks {listed(sorted(move.source for move in moves))} send {what}{end}"


def way(moves, ranks) -> str:
    """Say where all messages of a round go: `to rank 0`, `to the right`."""
    shifts = {move.target - move.source for move in moves}
    if len(moves) == 1:
        return f"to rank {moves[0].target}"
    if {*pairs(moves)} == {pair[::-1] for pair in pairs(moves)}:
        return "to its partner" if len(moves) == ranks else "each to its partner"
    if {shift % ranks for shift in shifts} == {1} and len(moves) == ranks:
        return "to the right"
    if len(shifts) == 1:
        [shift] = shifts
        far = f"{abs(shift)} ranks " if abs(shift) > 1 else ""
        return f"{far}to the {'right' if shift > 0 else 'left'}"
    return "along the arrows"
