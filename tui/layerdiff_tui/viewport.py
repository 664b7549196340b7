"""Which positions the columns of the screen stand for."""

from dataclasses import dataclass, replace

WIDEST = -3
"""The level at which a cell is four columns wide."""
_WIDEST_AT_FIRST = -2


@dataclass(frozen=True, slots=True)
class Viewport:
    """A window on positions [0, size), some to a cell or some columns to a cell."""

    size: int
    """Positions there are, at least 1."""
    width: int
    """Columns of the screen, at least 1."""
    level: int = 0
    """Positions to a cell are 2 ** level; below 0 a cell is 1 - level columns wide."""
    left: int = 0
    """The first position shown, a multiple of the bin."""

    @property
    def bin_size(self) -> int:
        """Positions to a cell."""
        return 1 << max(self.level, 0)

    @property
    def cell_width(self) -> int:
        """Columns to a cell."""
        return 1 - min(self.level, 0)

    @property
    def cells(self) -> int:
        """Cells that fit on the screen, at least 1."""
        return max(self.width // self.cell_width, 1)

    @property
    def stop(self) -> int:
        """The position after the last one shown."""
        return min(self.left + self.cells * self.bin_size, self.size)

    @property
    def fitting_level(self) -> int:
        """The closest level at which all positions are shown at once."""
        level = _WIDEST_AT_FIRST
        while not replace(self, level=level, left=0).shows_all:
            level += 1
        return level

    @property
    def shows_all(self) -> bool:
        """Whether no position lies outside the screen."""
        return self.left == 0 and self.cells * self.bin_size >= self.size

    def fitted(self) -> "Viewport":
        """All positions at once, as close as that allows."""
        return replace(self, level=self.fitting_level, left=0)

    def bin_of(self, position: int) -> tuple[int, int]:
        """The positions [start, stop) that share a cell with *position*."""
        start = position - position % self.bin_size
        return start, min(start + self.bin_size, self.size)

    def cell_of(self, position: int) -> int:
        """The cell of a position, 0 at the left edge; outside the screen if it is not shown."""
        return (position - self.left) // self.bin_size

    def position_at(self, column: int) -> int:
        """The first position of the cell under a column of the screen."""
        cell = min(max(column // self.cell_width, 0), self.cells - 1)
        return min(self.left + cell * self.bin_size, self.size - 1)

    def showing(self, position: int) -> "Viewport":
        """Moved as little as it takes to show a position, and not beyond the last one."""
        cell = self.cell_of(position)
        left = self.left
        if cell < 0:
            left = self.bin_of(position)[0]
        elif cell >= self.cells:
            left = self.bin_of(position)[0] - (self.cells - 1) * self.bin_size
        last = self.bin_of(self.size - 1)[0] - (self.cells - 1) * self.bin_size
        return replace(self, left=max(min(left, last), 0))

    def zoomed(self, steps: int, anchor: int) -> "Viewport":
        """Closer by *steps* (or farther), with *anchor* kept where it is on the screen."""
        level = max(WIDEST, min(self.level - steps, max(self.fitting_level, 0)))
        column = self.cell_of(anchor) * self.cell_width
        changed = replace(self, level=level, left=0)
        left = changed.bin_of(anchor)[0] - column // changed.cell_width * changed.bin_size
        return replace(changed, left=max(left, 0)).showing(anchor)

    def resized(self, width: int) -> "Viewport":
        """Another width, the same level."""
        return replace(self, width=max(width, 1))
