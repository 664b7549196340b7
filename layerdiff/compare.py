"""Which cells of two lines agree: one column of positions at a time, by bits.

Roots of whole observations are compared first; digests are read only where roots differ or where
the arms are chunked differently.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from layerdiff import sketch
from layerdiff.digest_store import DigestStore
from layerdiff.segments import Cells, Segments, expand


class State(IntEnum):
    """What is known of one position of a column; where versions disagree the highest counts."""

    ABSENT = 0
    BASELINE_ONLY = 1
    CARRIED = 2
    CANDIDATE_ONLY = 3
    AGREES = 4
    DIFFERS = 5


@dataclass(frozen=True, slots=True)
class ColumnDiff:
    """One column compared."""

    state: NDArray[np.uint8]
    """A State for each position."""
    relative: NDArray[np.float32]
    """Relative difference where it differs; NaN without sketches, 0 where it agrees."""
    compared: int
    """Cells compared, versions counted apart."""

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Where the column differs."""
        differs: NDArray[np.bool_] = self.state == State.DIFFERS
        return differs

    @property
    def clean(self) -> bool:
        """Whether nothing differs."""
        return not bool(self.differs.any())


def compare_column(
    baseline: tuple[DigestStore, Segments],
    candidate: tuple[DigestStore, Segments],
    size: int,
    drafted: NDArray[np.int64] | None = None,
    last: NDArray[np.int64] | None = None,
) -> ColumnDiff:
    """Compares two runs of segments position by position.

    Args:
        size: Positions of the column; segments lie below it.
        drafted: Positions that held other tokens before the last ones: only their last version
            belongs to the final text.
        last: All positions of which only the last version is compared, where the arms ran other
            passes; *drafted* if not given.
    """
    ours, theirs = candidate[1], baseline[1]
    state = np.zeros(size, np.uint8)
    relative = np.zeros(size, np.float32)
    compared = int((ours.stop - ours.start).sum())
    if len(ours) == len(theirs) and same_runs(ours, theirs):
        equal = _equal_roots(baseline[0], theirs, candidate[0], ours)
        equal &= ~_in_question(ours, ~equal, drafted, size)
        _mark_runs(state, ours.take(np.flatnonzero(equal)), State.AGREES)
        ours, theirs = ours.take(np.flatnonzero(~equal)), theirs.take(np.flatnonzero(~equal))
    if len(ours) or len(theirs):
        only = drafted if last is None else last
        left, right = (final(expand(runs), only) for runs in (theirs, ours))
        compared -= _compare_cells((baseline[0], left), (candidate[0], right), state, relative)
        if len(left) > len(right):
            _compare_cells((candidate[0], right), (baseline[0], left), state, relative, swap=True)
    return ColumnDiff(state, relative, compared)


def final(cells: Cells, drafted: NDArray[np.int64] | None) -> Cells:
    """Without the rejected versions of drafted positions."""
    if drafted is None or not len(drafted) or not len(cells):
        return cells
    last = np.append(cells.position[1:] != cells.position[:-1], True)
    kept = cells.take(last | ~np.isin(cells.position, drafted))
    only = np.isin(kept.position, drafted)
    return replace(kept, occurrence=np.where(only, 0, kept.occurrence))


def _in_question(
    runs: Segments,
    unequal: NDArray[np.bool_],
    drafted: NDArray[np.int64] | None,
    size: int,
) -> NDArray[np.bool_]:
    """Which runs hold a drafted position of which another version differs: the last one counts."""
    if drafted is None or not len(drafted) or not unequal.any():
        return np.zeros(len(runs), bool)
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, runs.start[unequal], 1)
    np.add.at(edges, runs.stop[unequal], -1)
    differing = (edges.cumsum()[:size] > 0) & np.isin(np.arange(size), drafted)
    before = np.concatenate([[0], np.cumsum(differing)])
    touched: NDArray[np.bool_] = before[runs.stop] > before[runs.start]
    return touched


def same_runs(a: Segments, b: Segments) -> bool:
    """Whether equally many runs cover the same positions, one by one."""
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("start", "stop", "parts"))


def _equal_roots(
    store_a: DigestStore, a: Segments, store_b: DigestStore, b: Segments
) -> NDArray[np.bool_]:
    """Where both runs are whole observations with the same root."""
    whole = np.ones(len(a), bool)
    roots = []
    for store, segments in ((store_a, a), (store_b, b)):
        rows = store.dump.observations[segments.observation]
        whole &= rows["rows"] == segments.stop - segments.start
        roots.append(rows["root"])
    equal: NDArray[np.bool_] = whole & (roots[0] == roots[1])
    return equal


def _mark_runs(state: NDArray[np.uint8], runs: Segments, value: State) -> None:
    """Marks all positions of *runs*; runs that touch are marked in one go."""
    order = np.argsort(runs.start, kind="stable")
    start, stop = runs.start[order], np.maximum.accumulate(runs.stop[order])
    breaks = np.flatnonzero(start[1:] > stop[:-1])
    for low, high in zip(
        start[np.append(0, breaks + 1)] if len(start) else [],
        stop[np.append(breaks, len(stop) - 1)] if len(stop) else [],
        strict=True,
    ):
        state[low:high] = np.maximum(state[low:high], value)


def _compare_cells(
    baseline: tuple[DigestStore, Cells],
    candidate: tuple[DigestStore, Cells],
    state: NDArray[np.uint8],
    relative: NDArray[np.float32],
    *,
    swap: bool = False,
) -> int:
    """Fills in *state* and *relative*; returns how many candidate cells have no partner.

    Args:
        swap: The sides are exchanged, so that every version of the baseline meets a partner too.
    """
    theirs, ours = baseline[1], candidate[1]
    partner, paired = match_versions(theirs, ours)
    if not swap:
        np.maximum.at(state, theirs.position, np.uint8(State.BASELINE_ONLY))
        np.maximum.at(state, ours.position[~paired], np.uint8(State.CANDIDATE_ONLY))
    left, right = theirs.take(partner[paired]), ours.take(paired)
    equal = equal_cells((baseline[0], left), (candidate[0], right))
    np.maximum.at(state, right.position[equal], np.uint8(State.AGREES))
    np.maximum.at(state, right.position[~equal], np.uint8(State.DIFFERS))
    if not equal.all():
        left, right = left.take(~equal), right.take(~equal)
        sides = [(baseline[0], left), (candidate[0], right)]
        far = distances(*(reversed(sides) if swap else sides))
        relative[right.position] = -1
        np.fmax.at(relative, right.position, far)
        relative[relative < 0] = np.nan
    return int((~paired).sum())


def match_versions(
    baseline: Cells, candidate: Cells
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """For each candidate cell the baseline cell of the same position and version.

    Where the baseline has fewer versions, its last one stands for the rest.
    """
    if not len(baseline) or not len(candidate):
        return np.zeros(len(candidate), np.intp), np.zeros(len(candidate), bool)
    width = int(max(baseline.occurrence.max(), candidate.occurrence.max())) + 1
    known = baseline.position * width + baseline.occurrence
    wanted = candidate.position * width + candidate.occurrence
    partner = np.searchsorted(known, wanted, side="right") - 1
    paired = (partner >= 0) & (baseline.position[np.maximum(partner, 0)] == candidate.position)
    return partner, paired


def equal_cells(a: tuple[DigestStore, Cells], b: tuple[DigestStore, Cells]) -> NDArray[np.bool_]:
    """Which of two equally long lists of cells have the same digests in all their parts."""
    (store_a, left), (store_b, right) = a, b
    equal: NDArray[np.bool_] = left.parts == right.parts
    for parts in np.unique(left.parts[equal]):
        here = np.flatnonzero(equal & (left.parts == parts))
        same = store_a.digests(left.first[here], int(parts)) == store_b.digests(
            right.first[here], int(parts)
        )
        equal[here] = same.all(axis=1)
    return equal


def distances(a: tuple[DigestStore, Cells], b: tuple[DigestStore, Cells]) -> NDArray[np.float32]:
    """Estimated relative difference of cells that differ, all parts of a cell together.

    Infinite where the shapes differ or only one side is finite; NaN without sketches.
    """
    (store_a, left), (store_b, right) = a, b
    found = np.full(len(left), np.nan, np.float32)
    found[left.parts != right.parts] = np.inf
    for parts in np.unique(left.parts):
        here = np.flatnonzero((left.parts == parts) & (right.parts == parts))
        x = store_a.sketches(left.first[here], int(parts))
        y = store_b.sketches(right.first[here], int(parts))
        if x is not None and y is not None:
            found[here] = joint_distance(x, y)
    return found


def joint_distance(
    baseline: NDArray[np.float32], candidate: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Relative difference of cells from the sketches of their parts, f4 [cells, parts, 5]."""
    norm, other = np.float64(baseline[..., 0]), np.float64(candidate[..., 0])
    with np.errstate(all="ignore"):
        apart = np.where(norm > 0, sketch.distance(baseline, candidate) * norm, other)
        size = np.sqrt((norm**2).sum(axis=-1))
        far = np.sqrt((apart**2).sum(axis=-1))
        joint = np.where(far > 0, far / size, 0.0)
    whole = [np.isfinite(side).all(axis=(-1, -2)) for side in (baseline, candidate)]
    joint[whole[0] != whole[1]] = np.inf
    joint[~whole[0] & ~whole[1]] = np.nan
    return joint
