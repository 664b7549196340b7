"""From judged pairs to the report: origins ranked, described and given their cause."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from layerdiff.arms import arm_causes, arm_gaps, broken_baselines, hits, told_otherwise
from layerdiff.compare import State
from layerdiff.coverage import count_coverage
from layerdiff.describe import describe
from layerdiff.facts import OriginFacts, WrittenValues
from layerdiff.fingerprint import weights_mismatch
from layerdiff.mismatch import (
    accepted_origin,
    flip_origin,
    length_origin,
    request_origin,
    weights_origin,
)
from layerdiff.model import Coverage, Origin, Report, Side
from layerdiff.outputs import compare_outputs
from layerdiff.pairing import Pairing
from layerdiff.trace import Find, Trace
from layerdiff.vocabulary import Moment, TensorKind, Verdict

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace

MAX_ORIGINS = 64
"""Origins described in full; the rest is counted in a warning."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A report, and the facts behind each of its origins."""

    report: Report
    facts: tuple[OriginFacts | None, ...]
    """Of each origin in order of rank; None for tokens and weights, which are no cells."""


def build_answer(
    baseline: "Arm", candidate: "Arm", pairing: Pairing, pairs: "tuple[PairTrace, ...]"
) -> Answer:
    """The whole answer of a comparison.

    Raises:
        NotADump: A dump was damaged after it was written.
    """
    ranked, warnings, written = _ranked(pairs), [], WrittenValues()
    facts = [
        OriginFacts(trace, find, (baseline.store, candidate.store), written)
        for trace, find in ranked[:MAX_ORIGINS]
    ]
    for found in facts:
        _check_roots(found)
    described = [describe(found) for found in facts]
    if len(ranked) > MAX_ORIGINS:
        warnings.append(f"{len(ranked) - MAX_ORIGINS} further origins are not described")
    first = [origin for pair in pairs if (origin := request_origin(pair))]
    weights = weights_mismatch(baseline.dump, candidate.dump)
    if weights:
        first.append(weights_origin(pairing.pairs[0].candidate.name, weights))
    last = [o for pair in pairs if (o := length_origin(pair, baseline, candidate))]
    last += [origin for pair in pairs if (origin := flip_origin(pair))]
    last += [origin for pair in pairs if (origin := accepted_origin(pair))]
    origins = tuple(
        replace(origin, rank=rank)
        for rank, origin in enumerate([*first, *described, *last], start=1)
    )
    causes = tuple(arm_causes(baseline.dump, candidate.dump, pairing))
    coverage = _coverage(baseline, candidate, pairing, pairs)
    warnings += [*pairing.ties, *_odd_arms(baseline, candidate, coverage)]
    lines = [line for pair in pairs for line in (pair.trace.baseline, pair.trace.candidate)]
    warnings += [*told_otherwise(lines), *broken_baselines(pairs, baseline)]
    report = Report(
        verdict=_verdict(origins, coverage, bool(causes)),
        baseline=_side(baseline, [pair.baseline.name for pair in pairing.pairs]),
        candidate=_side(candidate, [pair.candidate.name for pair in pairing.pairs]),
        coverage=coverage,
        origins=origins,
        arm_causes=causes,
        warnings=tuple(dict.fromkeys(warnings)),
        rounding_before=_rounding_before(ranked),
        sketched=baseline.dump.has_sketches and candidate.dump.has_sketches,
        outputs=compare_outputs(pairs, cells_differ=bool(origins or coverage.differing)),
    )
    return Answer(report, (*[None] * len(first), *facts, *[None] * len(last)))


def _check_roots(facts: OriginFacts) -> None:
    """A file that was damaged on disk must not be called a divergence.

    Raises:
        NotADump: The digests of the origin's cells do not match the root they were written with.
    """
    for side in (0, 1):
        facts.lines[side].dump.check_roots(facts.cell(side).observation.tolist())


def _side(arm: "Arm", requests: list[str]) -> Side:
    return Side(str(arm.dump.path), arm.dump.arm, tuple(dict.fromkeys(requests)))


def _ranked(pairs: "tuple[PairTrace, ...]") -> list[tuple[Trace, Find]]:
    """All origins: breaches inside an arm, then jumps, then reach into logits, then place.

    Places are ordered by layer, then token, then site: what a comparison of whole layers, row by
    row, would meet first.
    """
    found = []
    for number, pair in enumerate(pairs):
        depth = {site.index: at for at, site in enumerate(pair.trace.order)}
        layer = layer_ranks(pair.trace)
        for find in pair.trace.finds:
            shift = 1 if find.site.kind.is_state else 0
            if (
                find.moment in (Moment.IN, Moment.RESTORED)
                or find.position - shift >= pair.own_from
            ):
                reached = _reaches_logits(pair.trace, find)
                key = (
                    not find.breach,
                    not find.jump,
                    not reached,
                    layer[find.site.index],
                    find.position,
                    depth[find.site.index],
                    number,
                )
                found.append((key, pair.trace, find))
    found.sort(key=lambda item: item[0])
    return [(trace, find) for _, trace, find in found]


def layer_ranks(trace: Trace) -> dict[int, int]:
    """Orders sites by layer; what lies outside the layers goes with the layer before it."""
    ranks: dict[int, int] = {}
    rank = -1
    for site in trace.order:
        if site.layer_index is not None:
            rank = max(rank, site.layer_index)
        outside = rank if rank < 0 else rank + 1
        ranks[site.index] = outside if site.layer_index is None else site.layer_index
    return ranks


def _reaches_logits(trace: Trace, find: Find) -> bool:
    """Whether logits at or after the origin differ."""
    for column in trace.columns.values():
        if column.site.kind is TensorKind.LOGITS:
            at = np.flatnonzero(column.diff.state == State.DIFFERS)
            if len(at) and at[-1] >= find.position:
                return True
    return False


def _verdict(origins: tuple[Origin, ...], coverage: Coverage, broken_arm: bool) -> Verdict:
    if origins or coverage.differing:
        return Verdict.DIVERGED
    lacking = coverage.missing_in_baseline + coverage.missing_in_candidate
    lacking += coverage.not_comparable
    if broken_arm or lacking or coverage.gaps or not coverage.compared:
        return Verdict.INCONCLUSIVE
    return Verdict.IDENTICAL


def _rounding_before(ranked: list[tuple[Trace, Find]]) -> int:
    """Rounding-sized origins that come before the first-ranked jump in site order."""
    if not ranked or not ranked[0][1].jump:
        return 0
    trace, jump = ranked[0]
    depth = {site.index: at for at, site in enumerate(trace.order)}
    at = (depth[jump.site.index], jump.position)
    return sum(
        not find.jump and (depth[find.site.index], find.position) < at for _, find in ranked
    )


def _coverage(
    baseline: "Arm", candidate: "Arm", pairing: Pairing, pairs: "tuple[PairTrace, ...]"
) -> Coverage:
    counted = count_coverage(baseline, candidate, pairing, pairs)
    requests = [pair.candidate.request for pair in pairing.pairs]
    theirs = [pair.baseline.request for pair in pairing.pairs]
    gaps = [*arm_gaps(baseline.dump, theirs), *arm_gaps(candidate.dump, requests)]
    return replace(
        counted,
        hit_tokens=hits(candidate.dump, requests),
        gaps=tuple(dict.fromkeys([*counted.gaps, *gaps])),
    )


def _odd_arms(baseline: "Arm", candidate: "Arm", coverage: Coverage) -> list[str]:
    found = []
    for name, arm in (("baseline", baseline), ("candidate", candidate)):
        if arm.dump.faults:
            found.append(f"the {name} dump is incomplete: {arm.dump.faults[0]}")
        elif not arm.dump.closed:
            found.append(f"the {name} dump was not closed")
    if coverage.not_comparable:
        found.append(
            f"{coverage.not_comparable} cells lie behind the first token that differs and are "
            "not comparable"
        )
    return found
