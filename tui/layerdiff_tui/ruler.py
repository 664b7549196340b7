"""The two lines above the grid: absolute positions, and where the candidate's passes begin."""

import numpy as np

from layerdiff_tui.session import View
from layerdiff_tui.viewport import Viewport

_GAP = 2
"""Columns between two labels, at least."""


def label_step(viewport: Viewport) -> int:
    """Positions from one label to the next: 1, 2 or 5 times a power of ten."""
    longest = len(str(viewport.size)) + _GAP
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if step // viewport.bin_size * viewport.cell_width >= longest:
                return step
        power *= 10


def labels(viewport: Viewport) -> str:
    """The line of positions; each label begins at the column of its position."""
    line = [" "] * viewport.width
    for position in _labelled(viewport):
        column = viewport.cell_of(position) * viewport.cell_width
        text = str(position)
        if column + len(text) <= viewport.width:
            line[column : column + len(text)] = text
    return "".join(line)


def ticks(view: View, viewport: Viewport, *, ascii_only: bool) -> str:
    """The line of ticks: positions above it, the beginnings of passes and of requests below."""
    plain, label, chunk, both, takeover = "-'+#H" if ascii_only else "─┴┬┼╥"
    shown_cells = -(-(viewport.stop - viewport.left) // viewport.bin_size)
    line = [plain] * min(shown_cells * viewport.cell_width, viewport.width)
    for position in _labelled(viewport):
        _put(line, viewport, position, label)
    inside = view.chunks[(view.chunks >= viewport.left) & (view.chunks < viewport.stop)]
    for start in np.unique((inside - viewport.left) // viewport.bin_size):
        column = int(start) * viewport.cell_width
        if column < len(line):
            line[column] = both if line[column] in (label, both) else chunk
    for start in view.takeovers:
        if viewport.left <= start < viewport.stop:
            _put(line, viewport, start, takeover)
    return "".join(line).ljust(viewport.width)


def _labelled(viewport: Viewport) -> range:
    step = label_step(viewport)
    first = -(-viewport.left // step) * step
    return range(first, viewport.stop, step)


def _put(line: list[str], viewport: Viewport, position: int, sign: str) -> None:
    column = viewport.cell_of(position) * viewport.cell_width
    if 0 <= column < len(line):
        line[column] = sign


def chunk_parity(view: View, viewport: Viewport) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each cell on the screen lies in an odd pass, so that passes can be told apart."""
    count = -(-(viewport.stop - viewport.left) // viewport.bin_size)
    last = viewport.left + (np.arange(count) + 1) * viewport.bin_size - 1
    odd: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        np.searchsorted(view.chunks, last, side="right") % 2 == 0
    )
    return odd
