"""Whose rows a request stands on: its own, and those of the requests that filled its cache."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.format.reader import Dump, Site
from layerdiff.format.served import join_spans
from layerdiff.pairing import common_prefix
from layerdiff.segments import Cells, SegmentIndex, Segments, expand, join
from layerdiff.vocabulary import EventKind, Moment

_DOUBLED = 4
"""Rows that a cache may hold beyond its writer's tokens and still be told to be its own."""


@dataclass(frozen=True, slots=True)
class Part:
    """Positions [start, stop) of a line, computed by one request."""

    request: int
    start: int
    stop: int
    again: int | None = None
    """From where on later passes of it computed the positions below *start* too, if they did."""

    @property
    def low(self) -> int:
        """The first position that the request computed."""
        return self.start if self.again is None else self.again


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

    @property
    def foreign_source(self) -> str | None:
        """Who is told to have filled the unobserved part, with tokens that are not this line's."""
        source = self.dump.requests[self.parts[0].request].source
        return self.dump.requests[source].name if self.unobserved and source is not None else None

    def rows(self, site: int, moment: Moment) -> Segments:
        """Rows of a column, each from the request that computed it."""
        return join(
            [
                self.index.find(part.request, site, moment).clip(part.low, part.stop)
                for part in self.parts
            ]
        )

    def states(self, site: int, moment: Moment) -> Segments:
        """States of a column: a part's states lie in (low, stop], its reads in [low, stop)."""
        shift = 1 if moment in (Moment.OUT, Moment.SAVED) else 0
        return join(
            [
                self.index.find(part.request, site, moment).clip(
                    part.low + shift, part.stop + shift
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
    pass_index, span = join_spans(dump.passes["rowset"], dump.spans)
    found = []
    for part in line.parts:
        here = np.flatnonzero(span["request"] == part.request)
        start = np.maximum(span["start"][here].astype(np.int64), part.low)
        stop = np.minimum(span["stop"][here].astype(np.int64), part.stop)
        kept = stop > start
        request = np.full(int(kept.sum()), part.request, np.int64)
        found.append((request, pass_index[here][kept], start[kept], stop[kept]))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return Steps(*(column[order] for column in columns))


def drafted(line: Line) -> NDArray[np.int64]:
    """Positions whose token was replaced: drafts that were rejected."""
    tokens = line.dump.tokens
    found = []
    for part in line.parts:
        position = tokens["position"][tokens["request"] == part.request].astype(np.int64)
        seen, count = np.unique(position, return_counts=True)
        found.append(seen[count > 1])
    return np.concatenate(found)


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
        parts.append(Part(current, start, stop, _ran_again(dump, current, start)))
        if start == 0:
            return Line(dump, index, tuple(reversed(parts)), 0)
        source = find_source(dump, index, current)
        if source is None or source in seen:
            return Line(dump, index, tuple(reversed(parts)), start)
        seen.add(source)
        shared = common_prefix(dump.chain(source)[1], dump.chain(current)[1])
        current, stop = source, min(start, shared)


def _ran_again(dump: Dump, request: int, start: int) -> int | None:
    runs = dump.own_runs
    lowest = int(runs["start"][runs["request"] == request].min(initial=start))
    return lowest if lowest < start else None


def find_source(dump: Dump, index: SegmentIndex, request: int) -> int | None:
    """Who filled the cache that a request took over with the tokens that it should hold.

    Recorded, or recognised by its bits. Where the cache was filled under other tokens, the request
    that computed the right ones is what it should have been.
    """
    recorded = dump.requests[request].source
    hit = dump.requests[request].hit or 0
    chain = dump.chain(request)[1]
    if hit <= 0 or len(chain) < hit:
        return recorded
    nearly = [
        other.index
        for other in reversed(dump.requests[:request])
        if common_prefix(dump.chain(other.index)[1], chain) >= max(1, hit - _DOUBLED)
    ]
    # A state sums up the whole prefix: its writer is the one whose rows go with it.
    restored = _state_writer(dump, request, hit, nearly)
    if restored is not None:
        return restored
    if recorded in nearly:
        return recorded
    if recorded is not None:
        return nearly[0] if nearly else None
    return next((other for other in nearly if _shares_bits(dump, index, other, request)), None)


def _state_writer(dump: Dump, request: int, hit: int, nearly: list[int]) -> int | None:
    """Who left the states that a request went on from, as told; None where nobody near did."""
    events = dump.event_records
    told = events["kind"] == EventKind.STATE_READ
    told &= (events["request"] == request) & (events["start"] == hit)
    found = [int(other) for other in events["source_request"][told]]
    return next((other for other in found if other in nearly), None)


def _shares_bits(dump: Dump, index: SegmentIndex, writer: int, reader: int) -> bool:
    """Whether most cached columns that *reader* found begin as *writer* left them."""
    equal = total = 0
    for site in dump.sites:
        if site.kind.is_state:
            written = expand(index.find(writer, site.index, Moment.OUT))
        elif site.kind.is_kv:
            written = expand(index.find(writer, site.index, Moment.COMPUTED))
        else:
            continue
        found = expand(index.find(reader, site.index, Moment.IN))
        if len(written) and len(found):
            at = np.flatnonzero(written.position == found.position[0])
            total += 1
            equal += len(at) > 0 and _same_digests(dump, written.take(at[-1:]), found)
    return total > 0 and equal * 2 > total


def _same_digests(dump: Dump, a: Cells, b: Cells) -> bool:
    """Whether the first cells of both hold the same bits."""
    if a.parts[0] != b.parts[0]:
        return False
    first, second = (dump.digests(int(c.first[0]), int(c.parts[0])) for c in (a, b))
    return bool(np.array_equal(first, second))
