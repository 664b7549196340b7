"""What was recorded about one origin, gathered once for every rule that asks."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from layerdiff.digest import zero_digest
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
    pass_index: int
    """In which pass it was written."""


@dataclass(frozen=True, slots=True)
class _Written:
    """All values that one request's passes wrote at one site."""

    side: str
    request: int
    name: str
    store: DigestStore
    cells: Cells
    chain: NDArray[np.uint64]
    shift: int
    first_digest: NDArray[np.uint64]
    """Of each cell, its first part's."""

    def seen(self, row: int, wanted: NDArray[np.uint64]) -> Seen | None:
        """The cell of a row, if all its parts are as wanted."""
        if int(self.cells.parts[row]) != len(wanted):
            return None
        found = self.store.digests(self.cells.first[row : row + 1], len(wanted))[0]
        if not np.array_equal(found, wanted):
            return None
        position = int(self.cells.position[row])
        at = position - self.shift
        tokens = int(self.chain[at]) if 0 <= at < len(self.chain) else None
        observations = self.store.dump.observations
        made = int(observations["pass_index"][self.cells.observation[row]])
        return Seen(self.side, self.request, self.name, position, tokens, made)


class WrittenValues:
    """Every value that passes wrote, by side and site, gathered when first asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[_Written]] = {}

    def of(self, facts: "OriginFacts", side: int) -> list[_Written]:
        """What the passes of one dump wrote at the origin's site."""
        site = facts.site if side else facts.twin
        if site is None:
            return []
        if (side, site.index) not in self._known:
            self._known[side, site.index] = self._gather(facts, side, site)
        return self._known[side, site.index]

    @staticmethod
    def _gather(facts: "OriginFacts", side: int, site: Site) -> list[_Written]:
        line, store = facts.lines[side], facts.stores[side]
        moment = Moment.OUT if site.kind.is_state else Moment.COMPUTED
        found = []
        for request in line.dump.requests:
            cells = expand(line.index.find(request.index, site.index, moment))
            if len(cells):
                found.append(
                    _Written(
                        "candidate" if side else "baseline",
                        request.index,
                        request.name,
                        store,
                        cells,
                        line.dump.chain(request.index)[1],
                        1 if site.kind.is_state else 0,
                        store.digests(cells.first, 1)[:, 0],
                    )
                )
        return found

    def count(self, facts: "OriginFacts") -> int:
        """How many values an origin can be searched among."""
        return sum(len(written.cells) for side in (0, 1) for written in self.of(facts, side))


@dataclass(frozen=True)
class OriginFacts:
    """An origin with both sides of its first cell."""

    trace: Trace
    find: Find
    stores: tuple[DigestStore, DigestStore]
    """Of the baseline and of the candidate."""
    written: "WrittenValues" = field(default_factory=lambda: WrittenValues())
    """Shared by all origins of a report."""
    recognised: dict[int, list[Seen]] = field(default_factory=dict, repr=False, compare=False)
    """What `elsewhere` found, by position: several rules ask for the same."""

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

        Of a row that was read from a cache with the same bits more than once, the first time.

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
        last = max(len(seen) - 1, 0)
        if site.kind.is_kv and self.find.moment is Moment.IN and len(seen) > 1:
            bits = self.stores[side].digests(seen.first, int(seen.parts[last]))
            last = int(np.argmax((bits == bits[last]).all(axis=1)))
        return seen.take(slice(last, last + 1))

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

    @cached_property
    def all_zero(self) -> bool:
        """Whether every bit of the candidate's cell is zero."""
        cell, dump = self.cell(1), self.lines[1].dump
        if not len(cell):
            return False
        record = dump.observations[cell.observation[0]]
        if dump.header.get("keyed"):
            return bool(record["flags"] & schema.FLAG_ALL_ZERO)
        name = dump.dtype_name(int(cell.observation[0]))
        zero = zero_digest(name, dump.shape(int(record["shape"])))
        digests = self.digests(1)
        return digests is not None and bool((digests == np.uint64(zero)).all())

    def elsewhere(self, position: int | None = None) -> list[Seen]:
        """Where else a pass of either dump wrote what the candidate holds.

        Args:
            position: Of another cell of the same column.
        """
        at = self.find.position if position is None else position
        if at not in self.recognised:
            self.recognised[at] = self._search(at)
        return self.recognised[at]

    def _search(self, position: int) -> list[Seen]:
        wanted = self.digests(1, position)
        if wanted is None:
            return []
        found = []
        for side in (0, 1):
            for written in self.written.of(self, side):
                for row in np.flatnonzero(written.first_digest == wanted[0]):
                    seen = written.seen(int(row), wanted)
                    if seen is not None:
                        found.append(seen)
        return found

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
