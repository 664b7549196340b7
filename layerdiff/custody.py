"""Whether a cached row or state is still what was last seen of it, inside one arm.

A pass writes a value; later looks (a pass that reads it, the end of its request, another request
that takes the cache over) must find the same bits. Where they do not, something wrote in between,
and no baseline is needed to say so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import distances, equal_cells
from layerdiff.digest_store import DigestStore
from layerdiff.format.reader import Site
from layerdiff.lineage import Line, Steps
from layerdiff.segments import Cells, Segments, expand
from layerdiff.vocabulary import Moment


@dataclass(frozen=True, slots=True)
class Breaches:
    """Looks that did not find what was there before; one entry each, in order of time."""

    moment: NDArray[np.uint8]
    """Moment of the look."""
    look: Cells
    before: Cells
    """The same value as last seen."""
    relative: NDArray[np.float32]
    unwritten: NDArray[np.int64]
    """Positions that were looked at and whose writing nothing recorded."""

    def at(self, moment: Moment, size: int) -> NDArray[np.float32]:
        """Relative change at each position for looks of one moment; 0 where nothing changed."""
        changed = np.zeros(size, np.float32)
        here = (self.moment == moment) & (self.look.position < size)
        position = self.look.position[here]
        tiny = np.finfo(np.float32).tiny
        np.maximum.at(changed, position, np.nan_to_num(self.relative[here], nan=tiny))
        changed[position] = np.maximum(changed[position], tiny)
        return changed


def follow_custody(line: Line, store: DigestStore, site: Site, steps: Steps) -> Breaches:
    """Compares every look at a cached value with what was last seen of it."""
    written, runs, moments = _timeline(line, site, steps)
    size = int(max(runs.stop.max(initial=0), written.position.max(initial=-1) + 1))
    first, seen = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    look, before, moment, unwritten = [], [], [], []
    done = 0
    for index in range(len(runs)):
        now = int(np.searchsorted(written.observation, runs.observation[index]))
        fresh = written.take(slice(done, now))
        first[fresh.position], seen[fresh.position] = fresh.first, fresh.observation
        done = now
        cells = expand(runs.take(slice(index, index + 1)))
        known = first[cells.position] >= 0
        unwritten.append(cells.position[~known])
        found = cells.take(known)
        left = _last_seen(line, found.position, first, seen)
        changed = ~equal_cells((store, left), (store, found))
        look.append(found.take(changed))
        before.append(left.take(changed))
        moment.append(np.full(int(changed.sum()), moments[index], np.uint8))
        first[cells.position], seen[cells.position] = cells.first, cells.observation
    looks, befores = _join(look), _join(before)
    return Breaches(
        np.concatenate([np.zeros(0, np.uint8), *moment]),
        looks,
        befores,
        distances((store, befores), (store, looks)),
        np.unique(np.concatenate([np.zeros(0, np.int64), *unwritten])),
    )


def _last_seen(
    line: Line, position: NDArray[np.int64], first: NDArray[np.int64], seen: NDArray[np.int64]
) -> Cells:
    observation = seen[position]
    parts = line.dump.observations["parts"][observation].astype(np.int64)
    return Cells(position, np.zeros_like(position), first[position], parts, observation)


def _join(parts: list[Cells]) -> Cells:
    empty = [np.zeros(0, np.int64)]
    return Cells(
        *(np.concatenate(empty + [getattr(p, name) for p in parts]) for name in Cells.__slots__)
    )


def _timeline(line: Line, site: Site, steps: Steps) -> tuple[Cells, Segments, NDArray[np.uint8]]:
    """The cells that passes wrote, and the runs of looks with their moments, in order of time."""
    writing = Moment.OUT if site.kind.is_state else Moment.COMPUTED
    written = line.looks(site, writing)
    looks = [(line.looks(site, Moment.IN), Moment.IN)]
    if site.kind.is_state:
        own = _left_by_a_pass(line, written, steps)
        looks.append((written.take(np.flatnonzero(~own)), Moment.OUT))
        written = written.take(np.flatnonzero(own))
    else:
        looks.append((line.looks(site, Moment.OUT), Moment.OUT))
    runs = Segments(
        *(np.concatenate([getattr(r, name) for r, _ in looks]) for name in Segments.__slots__)
    )
    moments = np.concatenate([np.full(len(r), moment, np.uint8) for r, moment in looks])
    order = np.argsort(runs.observation, kind="stable")
    cells = expand(written)
    return (
        cells.take(np.argsort(cells.observation, kind="stable")),
        runs.take(order),
        moments[order],
    )


def _left_by_a_pass(line: Line, states: Segments, steps: Steps) -> NDArray[np.bool_]:
    """Which states a pass of this line left at its end; others were looked at later."""
    passes = line.dump.observations["pass_index"][states.observation].astype(np.int64)
    ends = steps.pass_index * (1 << 32) + steps.stop
    return np.isin(passes * (1 << 32) + states.start, ends)
