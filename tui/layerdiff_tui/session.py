"""What the screen shows, whether one dump was opened or a pair: no textual in it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from layerdiff.model import Origin
from layerdiff_tui.details import Detail
from layerdiff_tui.marks import Sign
from layerdiff_tui.rows import Row


@dataclass(frozen=True, slots=True)
class View:
    """One grid: a pair of requests, or one request of a dump."""

    title: str
    facts: str
    """What is worth knowing of this pair or request, in a few words."""
    rows: tuple[Row, ...]
    size: int
    """Positions there are."""
    chunks: NDArray[np.int64]
    """Where the passes of the candidate begin, in order."""
    takeovers: tuple[int, ...] = ()
    """Where a request begins that took over another one's cache."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A cell as the cursor names it: a row, and positions [start, stop)."""

    row: Row
    start: int
    stop: int
    position: int
    """The one position of them that is meant."""


@dataclass(frozen=True, slots=True)
class Target:
    """An origin of the report, and where the grid has it."""

    origin: Origin
    view: int
    key: str | None
    """Of the row; None for what no row shows, such as other tokens."""
    position: int


class Session(Protocol):
    """What was opened."""

    @property
    def answer(self) -> str:
        """The answer in one line."""
        ...

    @property
    def summary(self) -> tuple[str, ...]:
        """Which dumps these are, then the numbers behind the answer."""
        ...

    @property
    def signs(self) -> tuple[Sign, ...]:
        """What the marks in the rows mean."""
        ...

    @property
    def titles(self) -> tuple[str, ...]:
        """One for each view."""
        ...

    @property
    def targets(self) -> tuple[Target, ...]:
        """The origins in the order of the report."""
        ...

    @property
    def exit_status(self) -> int:
        """What the command line returns."""
        ...

    @property
    def formats(self) -> dict[str, str]:
        """The report by the file suffix that asks for it."""
        ...

    def view(self, index: int) -> View:
        """One of the views, made when it is first asked for."""
        ...

    def detail(self, index: int, spot: Spot) -> Detail:
        """All that is known of a cell of a view; safe to call from any thread."""
        ...
