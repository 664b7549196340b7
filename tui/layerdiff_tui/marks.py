"""What a cell shows: its sign and tone, and how many cells become one where there is no room."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from layerdiff.vocabulary import Mark

Marks = NDArray[np.uint8]
"""One mark a position; a higher one is worse and wins where several share a cell."""


class Tone(StrEnum):
    """How a sign is coloured; colour only repeats what the sign says."""

    ABSENT = "absent"
    AGREES = "agrees"
    CARRIED = "carried"
    UNPAIRED = "unpaired"
    HEALED = "healed"
    INHERITED = "inherited"
    ORIGIN = "origin"


class DumpMark(IntEnum):
    """What one dump alone knows of a position; a bin of cells shows its highest member."""

    ABSENT = 0
    CARRIED = 1
    HASHED = 2
    UNOBSERVED = 3


@dataclass(frozen=True, slots=True)
class Sign:
    """A mark as it is shown."""

    sign: str
    """One ASCII character."""
    tone: Tone
    word: str
    meaning: str


PAIR_SIGNS: tuple[Sign, ...] = (
    Sign(Mark.ABSENT.sign, Tone.ABSENT, "nothing", "neither arm has a value here"),
    Sign(Mark.AGREES.sign, Tone.AGREES, "agrees", "equal bits in both arms"),
    Sign(Mark.CARRIED.sign, Tone.CARRIED, "carried", "unchanged since last hashed"),
    Sign(Mark.UNPAIRED.sign, Tone.UNPAIRED, "not observed", "one arm alone has a value here"),
    Sign(Mark.HEALED.sign, Tone.HEALED, "healed", "agrees although something upstream differs"),
    Sign(Mark.INHERITED.sign, Tone.INHERITED, "inherited", "differs because its inputs do"),
    Sign(Mark.ORIGIN.sign, Tone.ORIGIN, "origin", "differs although its inputs agree, or jumps"),
)
"""By `Mark`."""

DUMP_SIGNS: tuple[Sign, ...] = (
    Sign(" ", Tone.ABSENT, "nothing", "no value here"),
    Sign("-", Tone.CARRIED, "carried", "read as it was left, not hashed again"),
    Sign("#", Tone.AGREES, "hashed", "there is a digest"),
    Sign("?", Tone.UNPAIRED, "not observed", "it was in the cache; nothing says who wrote it"),
)
"""By `DumpMark`."""


def worst(marks: Sequence[Marks]) -> Marks:
    """The worst mark of each position over several rows."""
    found: Marks = np.maximum.reduce(marks)
    return found


def bin_marks(marks: Marks, left: int, bin_size: int, count: int) -> Marks:
    """The worst mark of each of *count* bins from position *left* on; fewer at the end."""
    window = marks[left : left + bin_size * count]
    if bin_size == 1 or not len(window):
        return window
    found: Marks = np.maximum.reduceat(window, np.arange(0, len(window), bin_size))
    return found


def worst_at(marks: Marks, start: int, stop: int, near: int) -> int:
    """The position in [start, stop) with the worst mark: *near* if it is one of them."""
    window = marks[start:stop]
    if not len(window):
        return near
    if start <= near < start + len(window) and marks[near] == window.max():
        return near
    return start + int(window.argmax())


def cover(start: NDArray[np.int64], stop: NDArray[np.int64], size: int, mark: int) -> Marks:
    """*mark* on all positions below *size* that a run [start, stop) covers, else 0."""
    steps = np.zeros(size + 1, np.int64)
    np.add.at(steps, start, 1)
    np.add.at(steps, stop, -1)
    return np.where(np.cumsum(steps[:-1]) > 0, mark, 0).astype(np.uint8)
