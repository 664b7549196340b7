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
from layerdiff.written import Seen, Written, chain_at, gather


class WrittenValues:
    """Every value that the dumps show, by side and site, gathered when first asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[Written]] = {}

    def of(self, facts: "OriginFacts", side: int) -> list[Written]:
        """What one dump shows at the origin's site."""
        site = facts.site if side else facts.twin
        if site is None:
            return []
        if (side, site.index) not in self._known:
            name = "candidate" if side else "baseline"
            found = gather(facts.lines[side], facts.stores[side], site, name)
            self._known[side, site.index] = found
        return self._known[side, site.index]

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

        Of a cached value that changed inside the candidate, the first look that found it changed;
        of a row that was read with the same bits more than once, the first time.

        Args:
            side: 0 for the baseline, 1 for the candidate.
            position: Another position of the same column.
        """
        at = self.find.position if position is None else position
        site = self.site if side else self.twin
        if site is None:
            return expand(self.lines[side].index.segments.take(slice(0, 0)))
        if side:
            changed = self.trace.misread.get((site.index, self.find.moment))
            if changed is not None and at in changed.position:
                return changed.take(changed.position == at)
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
        """Whether every element of the candidate's cell is zero."""
        return self.zero_at(self.find.position)

    def zero_at(self, position: int) -> bool:
        """Whether every element of the candidate's cell at a position is +0 or -0."""
        cell = self.cell(1, position)
        return bool(len(cell)) and is_zero(self.stores[1], cell)

    def elsewhere(self, position: int | None = None) -> list[Seen]:
        """Where else either dump shows what the candidate holds: what was written, else seen.

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
        found = [
            written.seen(row)
            for side in (0, 1)
            for written in self.written.of(self, side)
            for row in np.flatnonzero(written.first_digest == wanted[0]).tolist()
            if written.holds(row, wanted)
        ]
        return self.places(found, position)

    def places(self, found: list[Seen], position: int) -> list[Seen]:
        """Those of *found* that tell something; none is the value's own place, seen again.

        What was only looked at counts where it was seen before, and nothing wrote this value. What
        the candidate wrote only after it had read the value may follow from it, and is no source.
        """
        own, made = self.prefix(position), self.pass_of(1)
        read = self.find.moment in (Moment.IN, Moment.RESTORED)
        kept = [
            seen
            for seen in found
            if (not seen.look or (seen.position, seen.chain) != (position, own))
            and (
                seen.side == "baseline"
                or made is None
                or seen.pass_index < made
                or not (read or seen.look)
            )
        ]
        return [seen for seen in kept if not seen.look] or kept

    def prefix(self, position: int) -> int | None:
        """Digest of the tokens that the candidate's value at *position* should sum up."""
        line = self.lines[1]
        return self._chain_at(1, line.request, position)

    def prefix_of(self, seen: Seen, position: int) -> int | None:
        """Digest of the tokens that the request of *seen* has up to *position*."""
        return self._chain_at(0 if seen.side == "baseline" else 1, seen.request, position)

    def _chain_at(self, side: int, request: int, position: int) -> int | None:
        chain = self.lines[side].dump.chain(request)[1]
        return chain_at(chain, position - (1 if self.site.kind.is_state else 0))


def is_zero(store: DigestStore, cell: Cells) -> bool:
    """Whether every element of one cell is +0 or -0; without sketches, whether it is +0."""
    dump, parts = store.dump, int(cell.parts[0])
    norms = store.sketches(cell.first, parts)
    if norms is not None and bool((norms[..., 0] == 0).all()):
        return True
    record = dump.observations[cell.observation[0]]
    if record["flags"] & schema.FLAG_ALL_ZERO:
        return True
    if dump.header.get("keyed"):
        return False
    name = dump.dtype_name(int(cell.observation[0]))
    zero = zero_digest(name, dump.shape(int(record["shape"])))
    return bool((store.digests(cell.first, parts) == np.uint64(zero)).all())
