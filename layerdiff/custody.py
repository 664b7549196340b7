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
from layerdiff.misplaced import misplaced
from layerdiff.segments import Cells, expand
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
    misplaced: NDArray[np.int64]
    """Those of them that were read with the state of another position."""

    def at(self, moment: Moment, size: int) -> "Changed":
        """What changed at each position, as looks of one moment found it."""
        here = (self.moment == moment) & (self.look.position < size)
        changed = Changed(np.zeros(size, bool), np.zeros(size, np.float32))
        changed.mask[self.look.position[here]] = True
        with np.errstate(invalid="ignore"):
            np.maximum.at(changed.size, self.look.position[here], self.relative[here])
        if moment is Moment.IN:
            places = self.misplaced[self.misplaced < size]
            changed.mask[places], changed.size[places] = True, np.nan
        return changed


@dataclass(frozen=True, slots=True)
class Changed:
    """Cached values of one column that are not what was last seen of them."""

    mask: NDArray[np.bool_]
    size: NDArray[np.float32]
    """Relative change; NaN where it is not known."""


def follow_custody(line: Line, store: DigestStore, site: Site, steps: Steps) -> Breaches:
    """Compares every look at a cached value with what was last seen of it."""
    cells, moments, written = _timeline(line, site, steps)
    order = np.argsort((cells.position << 32) | cells.observation, kind="stable")
    cells, moments, written = cells.take(order), moments[order], written[order]
    again = np.zeros(len(cells), bool)
    again[1:] = cells.position[1:] == cells.position[:-1]
    looks = np.flatnonzero(again & ~written)
    look, before = cells.take(looks), cells.take(looks - 1)
    changed = ~equal_cells((store, before), (store, look))
    look, before = look.take(changed), before.take(changed)
    unwritten = np.unique(cells.position[~again & ~written])
    is_state = site.kind.is_state
    return Breaches(
        moments[looks][changed],
        look,
        before,
        distances((store, before), (store, look)),
        unwritten,
        misplaced(line, store, site, unwritten) if is_state else unwritten[:0],
    )


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
    cells = Cells(*(np.concatenate([getattr(c, name) for c in runs]) for name in Cells.__slots__))
    return cells, np.concatenate(moments), np.concatenate(written)


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
