"""How much of both arms was compared, and what of the rest is accounted for."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import State
from layerdiff.model import Coverage
from layerdiff.pairing import Pairing, PairKind
from layerdiff.segments import is_whole
from layerdiff.trace import Column, Trace
from layerdiff.vocabulary import Moment, Reach, TensorKind

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace


def count_coverage(
    baseline: "Arm", candidate: "Arm", pairing: Pairing, pairs: "tuple[PairTrace, ...]"
) -> Coverage:
    """Counts cells over all pairs; a cell that several pairs share counts once."""
    names = ("compared", "differing", "carried", "explained", "behind", "base", "cand")
    totals: dict[str, int] = dict.fromkeys(names, 0)
    gaps: list[str] = []
    for pair in pairs:
        for column in pair.trace.columns.values():
            _count_column(totals, pair, column)
        totals["behind"] += _behind(pair)
        totals["carried"] += _carried(pair)
        gaps += _unwritten(pair)
    gaps += _missing_sites(baseline, candidate)
    gaps += _strangers(candidate, pairing, pairs) + _without_rows(baseline, candidate)
    return Coverage(
        compared=totals["compared"],
        differing=totals["differing"],
        carried=totals["carried"],
        explained=totals["explained"],
        not_comparable=totals["behind"],
        missing_in_baseline=totals["base"],
        missing_in_candidate=totals["cand"],
        gaps=tuple(dict.fromkeys(gaps)),
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
        totals["explained"] += int((state == State.CANDIDATE_ONLY).sum())
        return
    other = Moment.OUT if column.moment is Moment.IN else Moment.IN
    twin = pair.trace.columns.get((site.index, other))
    if twin is not None:
        seen = twin.diff.state[own_from:] > State.BASELINE_ONLY
        state = np.where(seen & (state == State.BASELINE_ONLY), State.ABSENT, state)
    ours, theirs = state == State.CANDIDATE_ONLY, state == State.BASELINE_ONLY
    if ours.any() or theirs.any():
        fine = _accounted_for(pair.trace, column)[size - len(state) :]
        totals["explained"] += int(((ours | theirs) & fine).sum())
        totals["base"] += int((ours & ~fine).sum())
        totals["cand"] += int((theirs & ~fine).sum())


def _accounted_for(trace: Trace, column: Column) -> NDArray[np.bool_]:
    """Where a cell that one arm alone shows follows from cells that agree in both.

    A state between two passes that only one arm has: the mixer's rows on both sides of it agree.
    Logits that one arm did not compute, because only the last row went through the head: the rows
    that it would have read agree.
    """
    site = column.site
    dump = trace.candidate.dump
    if site.kind is TensorKind.LOGITS and site.inputs:
        heads = [trace.columns.get((i, Moment.COMPUTED)) for i in site.inputs]
        agree = [h.diff.state == State.AGREES for h in heads if h is not None]
        return np.logical_and.reduce(agree) if agree else np.zeros(len(column.diff.state), bool)
    if not site.kind.is_state:
        return np.zeros(len(column.diff.state), bool)
    fine = np.zeros(len(column.diff.state), bool)
    for mixer in dump.sites:
        if site.index in mixer.inputs and mixer.reach is Reach.STATE:
            rows = trace.columns.get((mixer.index, Moment.COMPUTED))
            if rows is not None:
                good = np.logical_and.accumulate(rows.diff.state != State.DIFFERS)
                seen = rows.diff.state == State.AGREES
                fine[1:] |= (good & seen)[:-1]
    return fine


def _behind(pair: "PairTrace") -> int:
    """Cells of either side past the last position with the same tokens."""
    limit, beyond = pair.pair.comparable, 0
    lines = [pair.trace.candidate]
    if pair.pair.kind is not PairKind.PREFIX:
        lines.append(pair.trace.baseline)
    for line in lines:
        for site, moment in line.index.columns(line.request):
            if moment is Moment.COMPUTED:
                found = line.index.find(line.request, site, moment)
                beyond += int(np.maximum(found.stop - np.maximum(found.start, limit), 0).sum())
    return beyond


def _carried(pair: "PairTrace") -> int:
    line = pair.trace.candidate
    total = 0
    for site in line.dump.sites:
        found = line.index.find_carried(line.request, site.index, Moment.IN)
        total += int((found.stop - found.start).sum())
    return total


def _unwritten(pair: "PairTrace") -> list[str]:
    """Cached values whose writer no pass of the candidate recorded."""
    line = pair.trace.candidate
    if not line.unobserved:
        return []
    name = line.dump.requests[line.request].name
    gap = (
        f"{line.dump.arm}: the writer of positions [0, {line.unobserved}) in the cache of request "
        f"{name!r} is unobserved; record from an empty cache on"
    )
    return [gap]


def _strangers(candidate: "Arm", pairing: Pairing, pairs: "tuple[PairTrace, ...]") -> list[str]:
    """Requests of the candidate that nothing was compared with and that filled no cache."""
    helped = {part.request for pair in pairs for part in pair.trace.candidate.parts}
    return [
        f"request {prompt.name!r} of the candidate has no partner in the baseline; "
        f"{candidate.dump.path.name}::REQUEST compares one request"
        for prompt in pairing.unpaired_candidate
        if prompt.request not in helped
    ]


def _without_rows(baseline: "Arm", candidate: "Arm") -> list[str]:
    """Sites whose tensors have no row for each token: the same chunks would be needed."""
    names = {
        arm.dump.sites[int(site)].name
        for arm in (baseline, candidate)
        for site in np.unique(arm.dump.observations["site"][is_whole(arm.dump)])
    }
    shown = ", ".join(sorted(names)[:3])
    return [f"{len(names)} sites have no row a token and were not compared: {shown}"] * bool(names)


def _missing_sites(baseline: "Arm", candidate: "Arm") -> list[str]:
    ours = {site.name for site in candidate.dump.sites}
    theirs = {site.name for site in baseline.dump.sites}
    found = []
    for side, names in (("baseline", ours - theirs), ("candidate", theirs - ours)):
        if names:
            shown = ", ".join(sorted(names)[:3])
            found.append(f"{len(names)} sites are missing in the {side}: {shown}")
    return found
