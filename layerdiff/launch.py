"""How the kernels of an origin were launched, on both sides, as recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

from layerdiff.facts import OriginFacts
from layerdiff.lineage import Line


@dataclass(frozen=True, slots=True)
class Given:
    """One launch fact as both sides recorded it."""

    baseline: object
    candidate: object

    @property
    def differs(self) -> bool:
        """Whether the two kernels were given something else."""
        return bool(self.baseline != self.candidate)


def given(facts: OriginFacts, name: str) -> Given | None:
    """A fact of the kernels that made the origin's cell; None unless both sides recorded it."""
    found = [_known(facts, side) for side in (0, 1)]
    if any(name not in known for known in found):
        return None
    return Given(found[0][name], found[1][name])


def launched_alike(facts: OriginFacts, *, but: str) -> bool:
    """Whether chunk, kernel and every launch fact but one are the same on both sides."""
    kernels = [facts.kernel(side) for side in (0, 1)]
    known = [{k: v for k, v in _known(facts, side).items() if k != but} for side in (0, 1)]
    chunks = [chunk(facts, side) for side in (0, 1)]
    names = [None if kernel is None else kernel.name for kernel in kernels]
    return chunks[0] == chunks[1] and names[0] == names[1] and known[0] == known[1]


def chunk(facts: OriginFacts, side: int) -> tuple[int, int] | None:
    """Positions [start, stop) that the origin's pass covered of its request, in one arm."""
    index = facts.pass_of(side)
    if index is None:
        return None
    line = facts.lines[side]
    members = _members(line)
    for span in line.dump.rowset(int(line.dump.passes["rowset"][index])):
        if int(span["request"]) in members:
            return int(span["start"]), int(span["stop"])
    return None


def rope_position(line: Line, pass_index: int, position: int) -> int | None:
    """What the rotary embedding was given for a row of a pass; None where nothing was told."""
    rope, members = line.dump.rope, _members(line)
    for row in rope[rope["pass_index"] == pass_index]:
        start, stop = int(row["start"]), int(row["stop"])
        if int(row["request"]) in members and start <= position < stop:
            return int(row["first"]) + (position - start) * int(row["step"])
    return None


def pad_rows(line: Line, pass_index: int) -> tuple[int, int]:
    """Pad rows that went through a pass before and after a line's own rows."""
    pads, members = line.dump.pads, _members(line)
    for row in pads[pads["pass_index"] == pass_index]:
        if int(row["request"]) in members:
            return int(row["before"]), int(row["after"])
    return 0, 0


def _known(facts: OriginFacts, side: int) -> Mapping[str, object]:
    kernel = facts.kernel(side)
    return {} if kernel is None else kernel.facts


def _members(line: Line) -> set[int]:
    return {part.request for part in line.parts}
