"""One dump as the screen shows it: what was hashed, what was carried, what nobody saw."""

from functools import lru_cache
from threading import Lock

import numpy as np

from layerdiff.comparison import Arm
from layerdiff.errors import EXIT_IDENTICAL
from layerdiff.format.reader import Dump, Site
from layerdiff.lineage import Line, Steps, line_steps, trace_line
from layerdiff.overview import overview
from layerdiff.site_graph import in_order
from layerdiff.vocabulary import Moment
from layerdiff_tui.details import Detail
from layerdiff_tui.marks import DUMP_SIGNS, DumpMark, Marks, Sign, cover
from layerdiff_tui.plain import shown
from layerdiff_tui.rows import Column, layer_rows
from layerdiff_tui.session import Spot, Target, View
from layerdiff_tui.single_details import describe_cell


class DumpSession:
    """One dump.

    Args:
        only: The request to show first; the others can be reached from it.
    """

    def __init__(self, arm: Arm, only: str | None = None) -> None:
        self.arm = arm
        self._lock = Lock()
        self._line = lru_cache(maxsize=16)(self._make_line)
        self._view = lru_cache(maxsize=8)(self._make_view)
        dump = arm.dump
        chosen = [request.index for request in dump.requests if request.name == only]
        others = [request.index for request in dump.requests if request.index not in chosen]
        self._requests = (*chosen, *others)
        self.answer = f"arm {dump.arm} · {_status(dump)}"
        self.summary = _summary(dump)
        self.titles = tuple(dump.requests[index].name for index in self._requests)
        self.targets: tuple[Target, ...] = ()

    @property
    def signs(self) -> tuple[Sign, ...]:
        """By `DumpMark`."""
        return DUMP_SIGNS

    @property
    def exit_status(self) -> int:
        """The dump was read."""
        return EXIT_IDENTICAL

    @property
    def formats(self) -> dict[str, str]:
        """The text of ``layerdiff show``."""
        return {".txt": overview(self.arm.dump, every_pass=True)}

    def view(self, index: int) -> View:
        """The grid of one request."""
        return self._view(index)

    def detail(self, index: int, spot: Spot) -> Detail:
        """All that is known of a cell of one request."""
        with self._lock:
            line, steps = self._line(index)
            span = spot.start, spot.stop
            return describe_cell((line, steps), self.arm.store, spot.row, spot.position, span)

    def _make_line(self, index: int) -> tuple[Line, Steps]:
        dump, request = self.arm.dump, self._requests[index]
        spans = dump.spans
        length = int(np.max(spans["stop"][spans["request"] == request], initial=0))
        line = trace_line(dump, self.arm.index, request, length)
        return line, line_steps(line)

    def _make_view(self, index: int) -> View:
        line, steps = self._line(index)
        size = max((part.stop for part in line.parts), default=0) + 1
        request = self.arm.dump.requests[self._requests[index]]
        hit = "hit unknown" if request.hit is None else f"hit {request.hit}"
        parts = [self.arm.dump.requests[part.request].name for part in line.parts[:-1]]
        source = f" from {parts[-1]}" if parts else ""
        return View(
            title=request.name,
            facts=hit + source,
            rows=layer_rows(_columns(line, size)),
            size=size,
            chunks=np.unique(steps.start),
            takeovers=tuple(part.start for part in line.parts if part.start),
        )


def _status(dump: Dump) -> str:
    if dump.faults:
        return f"INCOMPLETE: {dump.faults[0]}"
    return "complete" if dump.closed else "not closed: its engine was killed or is still running"


def _summary(dump: Dump) -> tuple[str, ...]:
    """What the dump holds, in numbers."""
    rows = f"{int(dump.observations['rows'].sum()):,} rows hashed"
    words = [shown(dump.path.name), _count(len(dump.model_passes), "pass", "passes"), rows]
    gaps = len(dict.fromkeys((*dump.gaps, *dump.faults)))
    return (*words, _count(gaps, "gap", "gaps")) if gaps else tuple(words)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _columns(line: Line, size: int) -> list[Column]:
    """All columns that hold anything, in order of dependence; a site without any has one."""
    found = []
    for site in in_order(line.dump):
        of_site = [Column(site, moment, _marks(line, site, moment, size)) for moment in Moment]
        seen = [column for column in of_site if column.marks.any()]
        found += seen or of_site[:1]
    return found


def _marks(line: Line, site: Site, moment: Moment, size: int) -> Marks:
    hashed = line.looks(site, moment).clip(0, size)
    marks = cover(hashed.start, hashed.stop, size, DumpMark.HASHED)
    for part in line.parts:
        kept = line.index.find_carried(part.request, site.index, moment).clip(0, size)
        if len(kept):
            carried = cover(kept.start, kept.stop, size, DumpMark.CARRIED)
            marks = np.maximum(marks, carried)
    if moment is Moment.COMPUTED and not site.kind.is_state:
        hole = marks[: line.unobserved] == DumpMark.ABSENT
        marks[: line.unobserved][hole] = DumpMark.UNOBSERVED
    return marks
