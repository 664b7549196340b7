"""Whether a cached row or state is still what was last seen of it, inside one arm.

A pass writes a value; later looks (a pass that reads it, the end of its request, another request
that takes the cache over) must find the same bits. Where they do not, something wrote in between,
and no baseline is needed to say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import distances, equal_cells
from layerdiff.digest_store import DigestStore
from layerdiff.format.reader import Site
from layerdiff.lineage import Line, Steps
from layerdiff.misplaced import misplaced
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
    first: Cells
    """The first look at each of those."""
    misplaced: Mapping[Moment, NDArray[np.int64]]
    """Those of them that were read with the state of another position, by moment."""
    restored: Segments
    """States as they were restored, where no pass was seen to read the same bits there."""

    def at(self, moment: Moment, size: int) -> "Changed":
        """What changed at each position, as looks of one moment found it."""
        here = (self.moment == moment) & (self.look.position < size)
        changed = Changed(np.zeros(size, bool), np.zeros(size, np.float32))
        changed.mask[self.look.position[here]] = True
        with np.errstate(invalid="ignore"):
            np.maximum.at(changed.size, self.look.position[here], self.relative[here])
        places = self.misplaced.get(moment, np.zeros(0, np.int64))
        places = places[places < size]
        changed.mask[places], changed.size[places] = True, np.nan
        return changed

    def looks(self, moment: Moment, observations: NDArray[np.int64]) -> Cells:
        """Of some observations, the looks at what had changed, or that nothing wrote before."""
        changed = self.look.take(self.moment == moment)
        both = (changed, self.first) if moment is Moment.IN else (changed,)
        cells = _joined(*both)
        cells = cells.take(np.isin(cells.observation, observations))
        return cells.take(np.argsort((cells.position << 32) | cells.observation, kind="stable"))


@dataclass(frozen=True, slots=True)
class Changed:
    """Cached values of one column that are not what was last seen of them."""

    mask: NDArray[np.bool_]
    size: NDArray[np.float32]
    """Relative change; NaN where it is not known."""


def follow_custody(line: Line, store: DigestStore, site: Site, steps: Steps) -> Breaches:
    """Compares every look at a cached value with what was last seen of it."""
    is_state = site.kind.is_state
    cells, moments, written = _timeline(line, site, steps)
    order = np.argsort((cells.position << 32) | cells.observation, kind="stable")
    cells, moments, written = cells.take(order), moments[order], written[order]
    again = np.zeros(len(cells), bool)
    again[1:] = cells.position[1:] == cells.position[:-1]
    looks = np.flatnonzero(again & ~written)
    restored = (
        _restored_alone(line, store, site) if is_state else line.index.segments.take(slice(0, 0))
    )
    back, known, fresh = _last_before(cells, expand(restored))
    look = _joined(cells.take(looks), back)
    before = _joined(cells.take(looks - 1), cells.take(known))
    moments = np.append(moments[looks], np.full(len(back), Moment.RESTORED, np.uint8))
    changed = ~equal_cells((store, before), (store, look))
    look, before = look.take(changed), before.take(changed)
    unwritten = ~again & ~written
    first = cells.take(unwritten)
    missed: dict[Moment, NDArray[np.int64]] = {}
    if is_state:
        read = expand(line.states(site.index, Moment.IN))
        read = read.take(np.isin(read.position, first.position))
        missed = {
            Moment.IN: misplaced(line, store, site, read),
            Moment.RESTORED: misplaced(line, store, site, fresh),
        }
    return Breaches(
        moments[changed],
        look,
        before,
        distances((store, before), (store, look)),
        np.union1d(first.position, fresh.position),
        first,
        missed,
        restored,
    )


def _joined(*parts: Cells) -> Cells:
    return Cells(*(np.concatenate([getattr(c, n) for c in parts]) for n in Cells.__slots__))


def _restored_alone(line: Line, store: DigestStore, site: Site) -> Segments:
    """Restored states of which the next read of the same request does not show the same bits."""
    runs = line.states(site.index, Moment.RESTORED)
    if not len(runs):
        return runs
    back, read = expand(runs), expand(line.states(site.index, Moment.IN))
    keys = [(c.position << 32) | c.observation for c in (back, read)]
    after = np.searchsorted(keys[1], keys[0])
    near = np.minimum(after, max(len(read) - 1, 0))
    shown = np.zeros(len(back), bool)
    if len(read):
        shown = (after < len(read)) & (read.position[near] == back.position)
        shown &= equal_cells((store, back), (store, read.take(near)))
    alone = np.isin(runs.observation, back.observation[~shown])
    return runs.take(np.flatnonzero(alone))


def _last_before(cells: Cells, looks: Cells) -> tuple[Cells, NDArray[np.intp], Cells]:
    """*looks* at what was seen before, where in *cells* that was, and the other looks."""
    known = (cells.position << 32) | cells.observation
    at = np.searchsorted(known, (looks.position << 32) | looks.observation) - 1
    seen = at >= 0
    seen[seen] = cells.position[at[seen]] == looks.position[seen]
    return looks.take(seen), at[seen], looks.take(~seen)


def _timeline(
    line: Line, site: Site, steps: Steps
) -> tuple[Cells, NDArray[np.uint8], NDArray[np.bool_]]:
    """Every cell of a cached column, when it was seen, and whether a pass wrote it just then."""
    runs, moments, written = [], [], []
    for moment in (Moment.COMPUTED, Moment.OUT, Moment.IN):
        cells = expand(line.looks(site, moment))
        runs.append(cells)
        moments.append(np.full(len(cells), moment, np.uint8))
        by_pass = moment is Moment.OUT and site.kind.is_state
        written.append(
            _left_by_a_pass(line, cells, steps)
            if by_pass
            else np.full(len(cells), moment is Moment.COMPUTED)
        )
    if site.kind.is_state:
        saved = _saved_alone(line, site, runs)
        runs.append(saved)
        moments.append(np.full(len(saved), Moment.OUT, np.uint8))
        written.append(np.ones(len(saved), bool))
    return _joined(*runs), np.concatenate(moments), np.concatenate(written)


def _saved_alone(line: Line, site: Site, seen: list[Cells]) -> Cells:
    """States that were saved where none was seen to be left: in the middle of a pass."""
    saved = expand(line.states(site.index, Moment.SAVED))
    left = np.concatenate([cells.position for cells in seen[:-1]])
    return saved.take(~np.isin(saved.position, left))


def _left_by_a_pass(line: Line, states: Cells, steps: Steps) -> NDArray[np.bool_]:
    """Which states a pass of this line made, at its end or on the way; others were looked at."""
    passes = line.dump.observations["pass_index"][states.observation].astype(np.int64)
    low = np.searchsorted(steps.pass_index, passes, side="left")
    high = np.searchsorted(steps.pass_index, passes, side="right")
    made = np.zeros(len(states), bool)
    # Requests of one line may share a pass, so that it has more than one step.
    for nth in range(int((high - low).max(initial=0))):
        step = np.minimum(low + nth, len(steps) - 1)
        here = low + nth < high
        made |= (
            here & (steps.start[step] < states.position) & (states.position <= steps.stop[step])
        )
    return made
