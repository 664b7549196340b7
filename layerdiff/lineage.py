"""Whose rows a request stands on: its own, and those of the requests that filled its cache."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.format.reader import Dump, Site
from layerdiff.segments import SegmentIndex, Segments, expand, join
from layerdiff.vocabulary import Moment


@dataclass(frozen=True, slots=True)
class Part:
    """Positions [start, stop) of a line, computed by one request."""

    request: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Line:
    """A request with everything that filled its cache, as one run of positions from 0."""

    dump: Dump
    index: SegmentIndex
    parts: tuple[Part, ...]
    """In order of position; the last one is the request itself."""
    unobserved: int
    """Positions below this were in the cache, and nothing recorded says who wrote them."""

    @property
    def request(self) -> int:
        """The request whose line this is."""
        return self.parts[-1].request

    @property
    def hit(self) -> int:
        """Positions below the request's own first pass."""
        return self.parts[-1].start

    def rows(self, site: int, moment: Moment) -> Segments:
        """Rows of a column, each from the request that computed it."""
        return join(
            [
                self.index.find(part.request, site, moment).clip(part.start, part.stop)
                for part in self.parts
            ]
        )

    def states(self, site: int, moment: Moment) -> Segments:
        """States of a column: a part's states lie in (start, stop], its reads in [start, stop)."""
        shift = 1 if moment is Moment.OUT else 0
        return join(
            [
                self.index.find(part.request, site, moment).clip(
                    part.start + shift, part.stop + shift
                )
                for part in self.parts
            ]
        )

    def looks(self, site: Site, moment: Moment) -> Segments:
        """A cached column at one moment; what a request found in its cache counts as well."""
        if site.kind.is_state:
            return self.states(site.index, moment)
        if moment is Moment.COMPUTED:
            return self.rows(site.index, moment)
        return join(
            [
                self.index.find(part.request, site.index, moment).clip(0, part.stop)
                for part in self.parts
            ]
        )


@dataclass(frozen=True, slots=True)
class Steps:
    """The passes of a line, one entry a pass and request, in order of time."""

    request: NDArray[np.int64]
    pass_index: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)


def line_steps(line: Line) -> Steps:
    """Which pass covered which positions of a line."""
    dump = line.dump
    spans = dump.spans
    order = np.argsort(spans["rowset"], kind="stable")
    rowsets = spans["rowset"][order]
    pass_rowset = dump.passes["rowset"]
    low = np.searchsorted(rowsets, pass_rowset, side="left")
    count = np.searchsorted(rowsets, pass_rowset, side="right") - low
    pass_index = np.repeat(np.arange(len(pass_rowset)), count)
    within = np.arange(len(pass_index)) - np.repeat(np.cumsum(count) - count, count)
    span = spans[order][low[pass_index] + within]
    found = []
    for part in line.parts:
        here = np.flatnonzero(span["request"] == part.request)
        start = np.maximum(span["start"][here].astype(np.int64), part.start)
        stop = np.minimum(span["stop"][here].astype(np.int64), part.stop)
        kept = stop > start
        request = np.full(int(kept.sum()), part.request, np.int64)
        found.append((request, pass_index[here][kept], start[kept], stop[kept]))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return Steps(*(column[order] for column in columns))


def trace_line(dump: Dump, index: SegmentIndex, request: int, length: int) -> Line:
    """Follows a request's cache back to the requests that filled it.

    Args:
        length: Positions of interest: the line covers [0, length).
    """
    parts: list[Part] = []
    stop, current, seen = length, request, {request}
    while True:
        hit = dump.requests[current].hit or 0
        start = min(hit, stop)
        parts.append(Part(current, start, stop))
        if start == 0:
            return Line(dump, index, tuple(reversed(parts)), 0)
        source = find_source(dump, index, current)
        if source is None or source in seen:
            return Line(dump, index, tuple(reversed(parts)), start)
        seen.add(source)
        current, stop = source, start


def find_source(dump: Dump, index: SegmentIndex, request: int) -> int | None:
    """Who filled the cache that a request took over: recorded, or recognised by its bits."""
    recorded = dump.requests[request].source
    if recorded is not None:
        return recorded
    hit = dump.requests[request].hit or 0
    chain = dump.chain(request)[1]
    if hit <= 0 or len(chain) < hit:
        return None
    for other in reversed(dump.requests[:request]):
        theirs = dump.chain(other.index)[1]
        same_tokens = len(theirs) >= hit and theirs[hit - 1] == chain[hit - 1]
        if same_tokens and _shares_bits(dump, index, other.index, request, hit):
            return other.index
    return None


def _shares_bits(dump: Dump, index: SegmentIndex, writer: int, reader: int, hit: int) -> bool:
    """Whether most cached columns that *reader* found hold what *writer* left, at their end."""
    equal = total = 0
    for site in dump.sites:
        if site.kind.is_state:
            left, read, at = Moment.OUT, Moment.IN, hit
        elif site.kind.is_kv:
            left, read, at = Moment.COMPUTED, Moment.IN, hit - 1
        else:
            continue
        written = expand(index.find(writer, site.index, left).clip(at, at + 1))
        found = expand(index.find(reader, site.index, read).clip(at, at + 1))
        if len(written) and len(found) and written.parts[-1] == found.parts[0]:
            count = int(found.parts[0])
            total += 1
            equal += np.array_equal(
                dump.digests(int(written.first[-1]), count),
                dump.digests(int(found.first[0]), count),
            )
    return total > 0 and equal * 2 > total
