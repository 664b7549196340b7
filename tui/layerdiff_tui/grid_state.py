"""Where the cursor of the grid is, what is open, and which part is shown: no textual in it."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from layerdiff_tui import rows as rows_
from layerdiff_tui.marks import Marks, bin_marks, worst_at
from layerdiff_tui.rows import Row
from layerdiff_tui.session import Spot, View
from layerdiff_tui.viewport import Viewport


@dataclass(slots=True)
class GridState:
    """A grid and a cursor in it."""

    view: View
    viewport: Viewport
    height: int = 1
    """Rows that fit on the screen."""
    opened: set[str] = field(default_factory=set)
    """Keys of the rows that are open."""
    row: int = 0
    """Of the rows now visible."""
    position: int = 0
    top: int = 0
    """The first of the rows now visible that is on the screen."""
    fitted: bool = True
    """Whether the zoom follows the width, so that all positions are shown."""
    visible: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, view: View, width: int, height: int) -> "GridState":
        """The whole view, the cursor in its first cell."""
        viewport = Viewport(max(view.size, 1), max(width, 1)).fitted()
        return cls(view, viewport, max(height, 1), visible=list(view.rows))

    @property
    def current(self) -> Row:
        """The row under the cursor."""
        return self.visible[self.row]

    @property
    def spot(self) -> Spot:
        """The cell under the cursor; of a bin, the worst position."""
        start, stop = self.viewport.bin_of(self.position)
        worst = worst_at(self.current.marks, start, stop, self.position)
        return Spot(self.current, start, stop, worst)

    def marks(self, row: Row) -> Marks:
        """The marks of a row's cells that are on the screen."""
        view = self.viewport
        return bin_marks(row.marks, view.left, view.bin_size, view.cells)

    def resize(self, width: int, height: int) -> None:
        """Another size of the screen."""
        self.viewport = self.viewport.resized(width)
        grown = height > self.height
        self.height = max(height, 1)
        if self.fitted:
            self.viewport = self.viewport.fitted()
        if grown:
            parent = rows_.parent_of(self.view.rows, self.current.key)
            self._uncover(self.visible.index(parent or self.current))
        self._follow()

    def move_rows(self, steps: int) -> None:
        """Down by *steps*, or up."""
        self.row = min(max(self.row + steps, 0), len(self.visible) - 1)
        self._follow()

    def move_cells(self, steps: int) -> None:
        """Right by *steps* cells, or left."""
        start = self.viewport.bin_of(self.position)[0]
        self.go(start + steps * self.viewport.bin_size)

    def go(self, position: int) -> None:
        """To a position, or as near as there is one."""
        self.position = min(max(position, 0), self.view.size - 1)
        self._follow()

    def go_to_row(self, key: str) -> bool:
        """To the row with that key, opening what it lies in; False if there is none."""
        parent = rows_.parent_of(self.view.rows, key)
        if parent is not None:
            self.opened.add(parent.key)
            self.visible = rows_.visible(self.view.rows, self.opened)
        for index, row in enumerate(self.visible):
            if row.key == key:
                self.row = index
                if parent is not None:
                    self._uncover(self.visible.index(parent))
                self._follow()
                return True
        return False

    def next_chunk(self) -> None:
        """To where the next pass of the candidate begins, or to the end."""
        chunks = self.view.chunks
        found = bisect_right(chunks, self.position)
        self.go(int(chunks[found]) if found < len(chunks) else self.view.size - 1)

    def previous_chunk(self) -> None:
        """To where this pass began, or the one before it."""
        chunks = self.view.chunks
        found = bisect_left(chunks, self.position) - 1
        self.go(int(chunks[found]) if found >= 0 else 0)

    def toggle(self) -> None:
        """Opens the row under the cursor, or closes it or what it lies in."""
        row = self.current
        if not row.children:
            parent = rows_.parent_of(self.view.rows, row.key)
            if parent is None:
                return
            row = parent
        self.opened ^= {row.key}
        self.visible = rows_.visible(self.view.rows, self.opened)
        self.row = next(i for i, shown in enumerate(self.visible) if shown.key == row.key)
        if row.key in self.opened:
            self.top = max(self.top, min(self.row, self.row + len(row.children) + 1 - self.height))
        self._follow()

    def zoom(self, steps: int) -> None:
        """Closer by *steps*, or farther."""
        self.viewport = self.viewport.zoomed(steps, self.position)
        self.fitted = False

    def fit(self) -> None:
        """All positions at once."""
        self.fitted = True
        self.viewport = self.viewport.fitted()

    def _uncover(self, index: int) -> None:
        """Brings a row above the cursor's onto the screen if both fit."""
        if index < self.top and self.row - index < self.height:
            self.top = index
        elif self.row >= self.top + self.height:
            self.top = max(self.row - self.height + 1, min(index, self.row))

    def _follow(self) -> None:
        """Brings the cursor onto the screen, without a gap below the last row."""
        self.viewport = self.viewport.showing(self.position)
        self.row = min(self.row, len(self.visible) - 1)
        self.top = min(max(self.top, self.row - self.height + 1), self.row)
        self.top = max(min(self.top, len(self.visible) - self.height), 0)
