"""Paints the lines of the grid: what is on the screen, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from layerdiff_tui import ruler
from layerdiff_tui.grid_state import GridState
from layerdiff_tui.marks import Sign
from layerdiff_tui.plain import clipped, to_ascii
from layerdiff_tui.rows import Row

HEADER_LINES = 2


@dataclass(frozen=True, slots=True)
class Painter:
    """What all lines of one grid have in common."""

    signs: tuple[Sign, ...]
    label_width: int
    style: Callable[[str], Style]
    """The style of a component class, given without its prefix."""
    ascii_only: bool
    focused: bool

    def header(self, state: GridState, line: int, width: int) -> Strip:
        """The positions (line 0) or the ticks (line 1)."""
        words = ("position", "pass")[line]
        if line == 0 and state.viewport.bin_size > 1:
            words = f"position, {state.viewport.bin_size} a cell"
        if line == 0:
            text = ruler.labels(state.viewport)
        else:
            text = ruler.ticks(state.view, state.viewport, ascii_only=self.ascii_only)
        label = clipped(words, self.label_width - 1).rjust(self.label_width - 1) + " "
        dim = self.style("ruler")
        return Strip([Segment(label, dim), Segment(text, dim)]).adjust_cell_length(width, dim)

    def row(self, state: GridState, index: int, width: int) -> Strip:
        """One row: its label and its cells."""
        row = state.visible[index]
        here = index == state.row
        tone = "row-cursor" if here else "site-label" if row.depth else "row"
        segments = [Segment(self._label(row, state), self.style(tone))]
        segments += self._cells(state, row, here)
        return Strip(segments).adjust_cell_length(width, self.style("row"))

    def _label(self, row: Row, state: GridState) -> str:
        opened = row.key in state.opened
        arrow = (">", "v") if self.ascii_only else ("▸", "▾")
        sign = arrow[opened] if row.children else " "
        text = to_ascii(row.label) if self.ascii_only else row.label
        room = self.label_width - 3 - 2 * row.depth
        text = clipped(text, room)
        if self.ascii_only:
            text = text.replace("…", "~")
        body = "  " * row.depth + f"{sign} {text}"
        return body + " " * (self.label_width - cell_len(body))

    def _cells(self, state: GridState, row: Row, here: bool) -> list[Segment]:
        """Segments for the cells of a row, one for each run of the same style."""
        marks = state.marks(row)
        if not len(marks):
            return []
        odd = ruler.chunk_parity(state.view, state.viewport)[: len(marks)]
        look = marks.astype(np.int16) * 2 + odd
        cursor = state.viewport.cell_of(state.position) if here else -1
        cuts = np.flatnonzero(np.diff(look)) + 1
        if 0 <= cursor < len(look):
            cuts = np.unique(np.concatenate((cuts, [cursor, cursor + 1])))
            cuts = cuts[(cuts > 0) & (cuts < len(look))]
        bounds = [0, *cuts.tolist(), len(look)]
        return [
            self._run(int(look[start]), stop - start, state.viewport.cell_width, start == cursor)
            for start, stop in pairwise(bounds)
        ]

    def _run(self, look: int, count: int, cell_width: int, cursor: bool) -> Segment:
        sign = self.signs[look // 2]
        style = self.style("chunk-odd" if look % 2 else "row") + self.style(sign.tone)
        text = sign.sign.ljust(cell_width)
        if cursor:
            style += self.style("cursor" if self.focused else "cursor-blurred")
        return Segment(text * count, style)


def label_width(rows: tuple[Row, ...], width: int) -> int:
    """Columns for the labels: what they need, but never more than a third."""
    longest = max(
        (
            cell_len(row.label) + 3 + 2 * row.depth
            for parent in rows
            for row in (parent, *parent.children)
        ),
        default=0,
    )
    return max(12, min(longest, width // 3, 32))
