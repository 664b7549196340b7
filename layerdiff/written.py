"""What one dump holds at a site: the values that a value of unknown origin is searched among."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import joint_distance
from layerdiff.digest import CHAIN_START
from layerdiff.digest_store import DigestStore
from layerdiff.format.records import Site
from layerdiff.lineage import Line
from layerdiff.segments import Cells, expand
from layerdiff.vocabulary import Moment


@dataclass(frozen=True, slots=True)
class Seen:
    """One value that a dump holds, as a place to recognise it by."""

    side: str
    """``baseline`` or ``candidate``."""
    request: int
    request_name: str
    position: int
    chain: int | None
    """Digest of the tokens that the value sums up."""
    pass_index: int
    """In which pass it was written."""
    look: bool = False
    """It was seen there, and nothing recorded wrote it."""
    apart: float = 0.0
    """Relative difference, where it was recognised behind a cast."""


@dataclass(frozen=True, slots=True)
class Written:
    """All values that one dump shows of one request at one site."""

    side: str
    request: int
    name: str
    store: DigestStore
    cells: Cells
    chain: NDArray[np.uint64]
    shift: int
    """1 for states, which lie behind the last token that they sum up."""
    look: bool
    """Whether these are looks at what nothing recorded wrote."""
    first_digest: NDArray[np.uint64]
    """Of each cell, its first part's."""

    def seen(self, row: int, *, apart: float = 0.0) -> Seen:
        """The cell of a row, as a place."""
        position = int(self.cells.position[row])
        observations = self.store.dump.observations
        made = int(observations["pass_index"][self.cells.observation[row]])
        chain = chain_at(self.chain, position - self.shift)
        return Seen(self.side, self.request, self.name, position, chain, made, self.look, apart)

    def chains(self) -> NDArray[np.uint64]:
        """Digests of the tokens that the cells sum up, where they are known."""
        at = self.cells.position - self.shift
        return self.chain[at[(at >= 0) & (at < len(self.chain))]]

    def holds(self, row: int, wanted: NDArray[np.uint64]) -> bool:
        """Whether all parts of a row are as wanted."""
        if int(self.cells.parts[row]) != len(wanted):
            return False
        found = self.store.digests(self.cells.first[row : row + 1], len(wanted))[0]
        return bool(np.array_equal(found, wanted))

    def distances(self, wanted: NDArray[np.float32]) -> NDArray[np.float64]:
        """Relative difference of each cell from a value's sketch, f4 [parts, 5]; else infinite."""
        found = np.full(len(self.cells), np.inf)
        here = np.flatnonzero(self.cells.parts == len(wanted))
        sketches = self.store.sketches(self.cells.first[here], len(wanted))
        if sketches is not None and len(here):
            found[here] = joint_distance(sketches, np.broadcast_to(wanted, sketches.shape))
        return found


def chain_at(chain: NDArray[np.uint64], at: int) -> int | None:
    """Digest of a request's tokens up to the one at *at*; -1 is before its first."""
    if at == -1:
        return CHAIN_START
    return int(chain[at]) if 0 <= at < len(chain) else None


def gather(line: Line, store: DigestStore, site: Site, side: str) -> list[Written]:
    """What the requests of a line's dump show at a site.

    Of states also those that were only looked at, such as the one that a request begins with,
    where nothing that was recorded wrote one under these tokens; and copies of what was left.
    """
    if not site.kind.is_state:
        computed = _of_requests(line, site, Moment.COMPUTED)
        return [_written(side, line, store, one, shift=0, look=False) for one in computed]
    left = _of_requests(line, site, Moment.OUT)
    ended = {request: cells.position for request, cells in left}
    nowhere = np.zeros(0, np.int64)
    alone, copies = [], []
    for request, cells in _of_requests(line, site, Moment.SAVED):
        again = np.isin(cells.position, ended.get(request, nowhere))
        alone.append((request, cells.take(~again)))
        copies.append((request, cells.take(again)))
    made = [_written(side, line, store, one, shift=1, look=False) for one in (*left, *alone)]
    known = np.concatenate([np.zeros(0, np.uint64), *(w.chains() for w in made)])
    seen = [
        (request, cells.take(_unwritten(cells, line.dump.chain(request)[1], known)))
        for moment in (Moment.RESTORED, Moment.IN)
        for request, cells in _of_requests(line, site, moment)
    ]
    made += [_written(side, line, store, one, shift=1, look=True) for one in (*copies, *seen)]
    return [written for written in made if len(written.cells)]


def _of_requests(line: Line, site: Site, moment: Moment) -> list[tuple[int, Cells]]:
    """Cells of a column, by request, of those that have any."""
    found = [
        (request.index, expand(line.index.find(request.index, site.index, moment)))
        for request in line.dump.requests
    ]
    return [(request, cells) for request, cells in found if len(cells)]


def _written(
    side: str, line: Line, store: DigestStore, of: tuple[int, Cells], *, shift: int, look: bool
) -> Written:
    request, cells = of
    first = store.digests(cells.first, 1)[:, 0]
    place = (side, request, line.dump.requests[request].name)
    return Written(*place, store, cells, line.dump.chain(request)[1], shift, look, first)


def _unwritten(
    looks: Cells, chain: NDArray[np.uint64], known: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Which states were looked at where none was written under the same tokens."""
    at = looks.position - 1
    inside = (at >= 0) & (at < len(chain))
    fresh: NDArray[np.bool_] = at == -1
    fresh[inside] = ~np.isin(chain[at[inside]], known)
    return fresh
