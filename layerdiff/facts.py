"""What was recorded about one origin, gathered once for every rule that asks."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from layerdiff.digest_store import DigestStore
from layerdiff.format import schema
from layerdiff.format.records import Kernel, Site
from layerdiff.lineage import Line
from layerdiff.segments import Cells, expand
from layerdiff.trace import Find, Trace
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


@dataclass(frozen=True)
class OriginFacts:
    """An origin with both sides of its first cell."""

    trace: Trace
    find: Find
    stores: tuple[DigestStore, DigestStore]
    """Of the baseline and of the candidate."""

    @property
    def site(self) -> Site:
        """The candidate's site."""
        return self.find.site

    @property
    def lines(self) -> tuple[Line, Line]:
        """Baseline and candidate."""
        return self.trace.baseline, self.trace.candidate

    @cached_property
    def twin(self) -> Site | None:
        """The baseline's site of the same name."""
        for site in self.trace.baseline.dump.sites:
            if (site.name, site.role) == (self.site.name, self.site.role):
                return site
        return None

    def cell(self, side: int, position: int | None = None) -> Cells:
        """The cell of the origin in one arm, its last version; of no length if it has none.

        Args:
            side: 0 for the baseline, 1 for the candidate.
            position: Another position of the same column.
        """
        at = self.find.position if position is None else position
        site = self.site if side else self.twin
        if site is None:
            return expand(self.lines[side].index.segments.take(slice(0, 0)))
        moments = [self.find.moment]
        if not side and self.site.kind.is_state:
            moments = [self.find.moment, Moment.OUT, Moment.IN]
        elif not side and self.site.kind.is_kv:
            moments = [self.find.moment, Moment.COMPUTED, Moment.IN]
        found = [expand(self.lines[side].looks(site, m).clip(at, at + 1)) for m in moments]
        seen = next((cells for cells in found if len(cells)), found[0])
        return seen.take(slice(max(len(seen) - 1, 0), len(seen)))

    def digests(self, side: int, position: int | None = None) -> NDArray[np.uint64] | None:
        """Digests [parts] of that cell; None if the arm has none."""
        cell = self.cell(side, position)
        if not len(cell):
            return None
        found: NDArray[np.uint64] = self.stores[side].digests(cell.first, int(cell.parts[0]))[0]
        return found

    def kernel(self, side: int) -> Kernel | None:
        """The kernel recorded for that cell."""
        cell = self.cell(side)
        if not len(cell):
            return None
        dump = self.lines[side].dump
        index = int(dump.observations["kernel"][cell.observation[0]])
        return dump.kernels[index] if index < len(dump.kernels) else None

    def pass_of(self, side: int) -> int | None:
        """The pass in which that cell was seen."""
        cell = self.cell(side)
        if not len(cell):
            return None
        return int(self.lines[side].dump.observations["pass_index"][cell.observation[0]])

    @property
    def all_zero(self) -> bool:
        """Whether every bit of the candidate's observation is zero."""
        cell = self.cell(1)
        flags = self.lines[1].dump.observations["flags"]
        return bool(len(cell)) and bool(flags[cell.observation[0]] & schema.FLAG_ALL_ZERO)

    @cached_property
    def known(self) -> dict[bytes, list[Seen]]:
        """Every value that a pass of either dump wrote at this site, by its digests."""
        found: dict[bytes, list[Seen]] = defaultdict(list)
        for side, name in ((0, "baseline"), (1, "candidate")):
            site = self.site if side else self.twin
            if site is not None:
                self._gather(found, side, name, site)
        return found

    def _gather(self, found: dict[bytes, list[Seen]], side: int, name: str, site: Site) -> None:
        line, store = self.lines[side], self.stores[side]
        shift = 1 if site.kind.is_state else 0
        for request in line.dump.requests:
            chain = line.dump.chain(request.index)[1]
            written = Moment.OUT if site.kind.is_state else Moment.COMPUTED
            cells = expand(line.index.find(request.index, site.index, written))
            for row, position in enumerate(cells.position.tolist()):
                digests = store.digests(cells.first[row : row + 1], int(cells.parts[row]))[0]
                at = position - shift
                tokens = int(chain[at]) if 0 <= at < len(chain) else None
                found[digests.tobytes()].append(
                    Seen(name, request.index, request.name, position, tokens)
                )

    def prefix(self, position: int) -> int | None:
        """Digest of the tokens that the candidate's value at *position* should sum up."""
        line = self.lines[1]
        return self._chain_at(1, line.request, position)

    def prefix_of(self, seen: Seen, position: int) -> int | None:
        """Digest of the tokens that the request of *seen* has up to *position*."""
        return self._chain_at(0 if seen.side == "baseline" else 1, seen.request, position)

    def _chain_at(self, side: int, request: int, position: int) -> int | None:
        chain = self.lines[side].dump.chain(request)[1]
        at = position - (1 if self.site.kind.is_state else 0)
        return int(chain[at]) if 0 <= at < len(chain) else None
