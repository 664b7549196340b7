"""Where each run of consecutive positions of one dump has its digests.

An observation covers the rows of a pass; a segment is the part of it that belongs to one request.
Everything here is arrays: one entry a segment, sorted by request, site, moment and time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.vocabulary import Moment

_MOMENTS = 8


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of positions with consecutive digests."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    first: NDArray[np.int64]
    """Index of the first digest of the run; row r of it starts at ``first + r * parts``."""
    parts: NDArray[np.int64]
    observation: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, chosen: NDArray[np.intp] | slice) -> "Segments":
        """The chosen segments."""
        return Segments(
            self.start[chosen],
            self.stop[chosen],
            self.first[chosen],
            self.parts[chosen],
            self.observation[chosen],
        )

    def clip(self, low: int, high: int) -> "Segments":
        """What lies in positions [low, high)."""
        start, stop = np.maximum(self.start, low), np.minimum(self.stop, high)
        clipped = Segments(
            start,
            stop,
            self.first + (start - self.start) * self.parts,
            self.parts,
            self.observation,
        )
        return clipped.take(np.flatnonzero(stop > start))


def join(parts: list[Segments]) -> Segments:
    """Several runs of segments, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Segments(
        *(
            np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0, np.int64)])
            for name in Segments.__slots__
        )
    )


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """All segments of a dump, found by request, site and moment."""

    segments: Segments
    carried: Segments
    """Runs that were recognised as unchanged and not hashed again."""
    _hashed_at: dict[tuple[int, int, int], slice]
    _carried_at: dict[tuple[int, int, int], slice]
    _columns: dict[int, set[tuple[int, Moment]]]

    def find(self, request: int, site: int, moment: Moment) -> Segments:
        """The hashed runs of one column of one request, in order of time."""
        return self.segments.take(self._hashed_at.get((request, site, int(moment)), slice(0, 0)))

    def find_carried(self, request: int, site: int, moment: Moment) -> Segments:
        """The carried runs of one column of one request."""
        return self.carried.take(self._carried_at.get((request, site, int(moment)), slice(0, 0)))

    def columns(self, request: int) -> set[tuple[int, Moment]]:
        """Which (site, moment) pairs of a request have hashed rows."""
        return self._columns.get(request, set())


def index_segments(dump: Dump) -> SegmentIndex:
    """Joins a dump's observations with their rowsets."""
    observations = dump.observations
    spans, first_span, span_count = _spans_by_rowset(dump)
    counts = np.where(is_whole(dump), 0, span_count)
    observation = np.repeat(np.arange(len(observations)), counts)
    within = np.arange(len(observation)) - np.repeat(np.cumsum(counts) - counts, counts)
    span = spans[first_span[observation] + within]

    start, stop = span["start"].astype(np.int64), span["stop"].astype(np.int64)
    length = stop - start
    ends = np.cumsum(length)
    before = ends - length
    base = before[np.flatnonzero(within == 0)] if len(within) else np.zeros(0, np.int64)
    offset = before - np.repeat(base, counts[counts > 0])
    parts = observations["parts"].astype(np.int64)[observation]
    found = Segments(
        start,
        stop,
        observations["first_digest"].astype(np.int64)[observation] + offset * parts,
        parts,
        observation.astype(np.int64),
    )
    key = (
        span["request"].astype(np.int64) * len(dump.sites) + observations["site"][observation]
    ) * _MOMENTS + observations["moment"][observation]
    carried = (observations["flags"][observation] & schema.FLAG_CARRIED) != 0
    hashed, hashed_at = _group(found, key, np.flatnonzero(~carried), len(dump.sites))
    kept, kept_at = _group(found, key, np.flatnonzero(carried), len(dump.sites))
    columns: dict[int, set[tuple[int, Moment]]] = {}
    for request, site, moment in hashed_at:
        columns.setdefault(request, set()).add((site, Moment(moment)))
    return SegmentIndex(hashed, kept, hashed_at, kept_at, columns)


def is_whole(dump: Dump) -> NDArray[np.bool_]:
    """Which observations hold one digest for a tensor whose rows are no tokens."""
    whole: NDArray[np.bool_] = (dump.observations["flags"] & schema.FLAG_WHOLE_TENSOR) != 0
    return whole


def _spans_by_rowset(
    dump: Dump,
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.int64]]:
    """All spans, and for each observation where its own begin and how many they are."""
    spans = dump.spans[np.argsort(dump.spans["rowset"], kind="stable")]
    first = np.searchsorted(spans["rowset"], dump.observations["rowset"], side="left")
    last = np.searchsorted(spans["rowset"], dump.observations["rowset"], side="right")
    return spans, first.astype(np.int64), (last - first).astype(np.int64)


def _group(
    segments: Segments, key: NDArray[np.int64], chosen: NDArray[np.intp], sites: int
) -> tuple[Segments, dict[tuple[int, int, int], slice]]:
    order = chosen[np.argsort(key[chosen], kind="stable")]
    keys, first, count = np.unique(key[order], return_index=True, return_counts=True)
    at = {
        (int(k) // _MOMENTS // sites, int(k) // _MOMENTS % sites, int(k) % _MOMENTS): slice(
            int(f), int(f + c)
        )
        for k, f, c in zip(keys, first, count, strict=True)
    }
    return segments.take(order), at


@dataclass(frozen=True, slots=True)
class Cells:
    """Single cells of one column, sorted by position and then by time."""

    position: NDArray[np.int64]
    occurrence: NDArray[np.int64]
    """0 for the first time that a position was seen, 1 for the second, and so on."""
    first: NDArray[np.int64]
    """Index of the cell's first digest."""
    parts: NDArray[np.int64]
    observation: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.position)

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "Cells":
        """The chosen cells."""
        return Cells(*(getattr(self, name)[chosen] for name in Cells.__slots__))


def expand(segments: Segments) -> Cells:
    """One entry a cell."""
    length = segments.stop - segments.start
    which = np.repeat(np.arange(len(segments)), length)
    row = np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length)
    position = segments.start[which] + row
    parts = segments.parts[which]
    first = segments.first[which] + row * parts
    order = np.argsort(position, kind="stable")
    position = position[order]
    fresh = np.ones(len(position), bool)
    fresh[1:] = position[1:] != position[:-1]
    run_start = np.maximum.accumulate(np.where(fresh, np.arange(len(position)), 0))
    occurrence = np.arange(len(position)) - run_start
    return Cells(
        position, occurrence, first[order], parts[order], segments.observation[which][order]
    )
