"""How a cell was launched: in which chunk, behind which hit, by which kernel."""

from dataclasses import dataclass

import numpy as np

from layerdiff.format.records import Kernel, Site
from layerdiff.lineage import Line
from layerdiff.segments import expand
from layerdiff.vocabulary import Moment, Role


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch over a chunk of one request."""

    start: int
    stop: int
    hit: int
    """Positions that the line's request took over."""
    kernel: Kernel | None

    def same_as(self, other: "Launch") -> bool:
        """Whether chunk, hit, kernel and its facts are equal."""
        return self.same_chunk(other) and _told(self.kernel) == _told(other.kernel)

    def same_chunk(self, other: "Launch") -> bool:
        """Whether chunk and hit are equal, and the kernel's name."""
        names = [None if side.kernel is None else side.kernel.name for side in (self, other)]
        mine, theirs = (self.start, self.stop, self.hit), (other.start, other.stop, other.hit)
        return mine == theirs and names[0] == names[1]


def _told(kernel: Kernel | None) -> tuple[str, dict[str, object]] | None:
    return None if kernel is None else (kernel.name, dict(kernel.facts))


def launch_at(line: Line, site: tuple[str, Role], moment: Moment, position: int) -> Launch | None:
    """The launch that made, or read, a cell last; None where the line does not show it.

    Args:
        site: Name and role.
    """
    found = next((s for s in line.dump.sites if (s.name, s.role) == site), None)
    return None if found is None else _launch(line, found, moment, position)


def _launch(line: Line, site: Site, moment: Moment, position: int) -> Launch | None:
    cells = expand(line.looks(site, moment).clip(position, position + 1))
    if not len(cells):
        return None
    dump = line.dump
    record = dump.observations[int(cells.observation[-1])]
    spans = dump.rowset(int(dump.passes[int(record["pass_index"])]["rowset"]))
    members = [part.request for part in line.parts]
    own = spans[np.isin(spans["request"], members)]
    if not len(own):
        return None
    index = int(record["kernel"])
    kernel = dump.kernels[index] if index < len(dump.kernels) else None
    return Launch(int(own["start"].min()), int(own["stop"].max()), line.hit, kernel)
