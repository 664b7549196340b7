"""How much of both arms was compared, and what of the rest is accounted for."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import State
from layerdiff.format.records import Site
from layerdiff.gaps import count_behind, describe_gaps
from layerdiff.lineage import Line
from layerdiff.model import Coverage
from layerdiff.pairing import Pairing
from layerdiff.trace import Column, Trace
from layerdiff.vocabulary import Moment, Reach, TensorKind

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace


def count_coverage(
    baseline: "Arm", candidate: "Arm", pairing: Pairing, pairs: "tuple[PairTrace, ...]"
) -> Coverage:
    """Counts cells over all pairs; a cell that several pairs share counts once."""
    names = ("compared", "differing", "carried", "explained", "base", "cand")
    totals: dict[str, int] = dict.fromkeys(names, 0)
    for pair in pairs:
        for column in pair.trace.columns.values():
            _count_column(totals, pair, column)
        totals["carried"] += _carried(pair)
    return Coverage(
        compared=totals["compared"],
        differing=totals["differing"],
        carried=totals["carried"],
        explained=totals["explained"],
        not_comparable=count_behind(baseline, candidate, pairs),
        missing_in_baseline=totals["base"],
        missing_in_candidate=totals["cand"],
        gaps=tuple(dict.fromkeys(describe_gaps(baseline, candidate, pairing, pairs))),
    )


def _count_column(totals: dict[str, int], pair: "PairTrace", column: Column) -> None:
    site, size = column.site, len(column.diff.state)
    own_from = pair.own_from + (1 if site.kind.is_state and column.moment is Moment.OUT else 0)
    if column.moment is Moment.IN and not site.kind.is_state:
        own_from = 0
    state = column.diff.state[own_from:]
    totals["differing"] += int((state == State.DIFFERS).sum())
    totals["compared"] += int((state >= State.AGREES).sum())
    if column.moment is not Moment.COMPUTED and not site.kind.is_state:
        alone = np.flatnonzero(state == State.CANDIDATE_ONLY) + own_from
        unknown = np.isin(alone, pair.trace.breaches[site.index].unwritten)
        totals["base"] += int(unknown.sum())
        totals["explained"] += int((~unknown).sum())
        return
    other = Moment.OUT if column.moment is Moment.IN else Moment.IN
    twin = pair.trace.columns.get((site.index, other))
    if twin is not None:
        seen = twin.diff.state[own_from:] > State.BASELINE_ONLY
        state = np.where(seen & (state == State.BASELINE_ONLY), State.ABSENT, state)
    ours, theirs = state == State.CANDIDATE_ONLY, state == State.BASELINE_ONLY
    if ours.any() or theirs.any():
        fine = _accounted_for(pair.trace, column)[size - len(state) :]
        if column.moment is Moment.RESTORED:
            unwritten = pair.trace.breaches[site.index].unwritten
            fine = fine | np.isin(np.arange(own_from, size), unwritten, invert=True)
        totals["explained"] += int(((ours | theirs) & fine).sum())
        totals["base"] += int((ours & ~fine).sum())
        totals["cand"] += int((theirs & ~fine).sum())


def _accounted_for(trace: Trace, column: Column) -> NDArray[np.bool_]:
    """Where a cell that one arm alone shows follows from cells that agree in both.

    A state between two passes that only one arm has: the mixer's rows before it agree, and the
    other arm shows this state elsewhere. Logits that one arm did not compute, because only the
    last row went through the head: what it would have read agrees, and later logits are there.
    """
    site, state = column.site, column.diff.state
    nowhere = np.zeros(len(state), bool)
    unasked = _unasked(trace)
    if site.index in unasked and column.moment is Moment.COMPUTED:
        return unasked[site.index]
    if not site.kind.is_state or not _shown_by_both(trace, column):
        return nowhere
    mixers = [
        rows
        for mixer in trace.candidate.dump.sites
        if site.index in mixer.inputs and mixer.reach is Reach.STATE
        if (rows := trace.columns.get((mixer.index, Moment.COMPUTED))) is not None
    ]
    for rows in mixers:
        good = np.logical_and.accumulate(rows.diff.state != State.DIFFERS)
        nowhere[1:] |= (good & (rows.diff.state == State.AGREES))[:-1]
    return nowhere


def _unasked(trace: Trace) -> dict[int, NDArray[np.bool_]]:
    """Logits of one arm, and what is made of them, where all behind them agrees.

    The other arm has later ones: only the last row of a pass goes through the head. By site, where
    it holds logits or what is made of logits alone.
    """
    found: dict[int, NDArray[np.bool_]] = {}
    for site in trace.candidate.dump.sites:
        behind = bool(site.inputs) and all(index in found for index in site.inputs)
        column = trace.columns.get((site.index, Moment.COMPUTED))
        if column is not None and (behind or site.kind is TensorKind.LOGITS):
            found[site.index] = _follows(trace, column, found)
    return found


def _follows(
    trace: Trace, column: Column, unasked: dict[int, NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    site, state = column.site, column.diff.state
    made_of = [
        (head.diff.state == State.AGREES) | unasked.get(index, np.False_)
        for index in site.inputs
        if (head := trace.columns.get((index, Moment.COMPUTED))) is not None
    ]
    if not made_of:
        return np.zeros(len(state), bool)
    at = np.arange(len(state))
    lacking = np.where(
        state == State.CANDIDATE_ONLY,
        at < _last_row(trace.baseline, _twin(trace, site)),
        at < _last_row(trace.candidate, site),
    )
    agree: NDArray[np.bool_] = np.logical_and.reduce([lacking, *made_of])
    return agree


def _last_row(line: Line, site: Site | None) -> int:
    """The last position of a line's own request that a site was seen at; 0 if there is none."""
    if site is None:
        return 0
    return int(line.index.find(line.request, site.index, Moment.COMPUTED).stop.max(initial=1)) - 1


def _twin(trace: Trace, site: Site) -> Site | None:
    same = (s for s in trace.baseline.dump.sites if (s.name, s.role) == (site.name, site.role))
    return next(same, None)


def _shown_by_both(trace: Trace, column: Column) -> bool:
    """Whether each arm shows this state at some position."""
    sides = [(trace.candidate, column.site), (trace.baseline, _twin(trace, column.site))]
    return all(
        site is not None and any(len(line.looks(site, m)) for m in (Moment.IN, Moment.OUT))
        for line, site in sides
    )


def _carried(pair: "PairTrace") -> int:
    line = pair.trace.candidate
    total = 0
    for site in line.dump.sites:
        found = line.index.find_carried(line.request, site.index, Moment.IN)
        total += int((found.stop - found.start).sum())
    return total
