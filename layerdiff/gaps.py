"""What was not compared, and not accounted for either: each a reason against *identical*."""

from typing import TYPE_CHECKING

import numpy as np

from layerdiff.lineage import Line
from layerdiff.pairing import Pairing, PairKind, labels
from layerdiff.segments import is_whole
from layerdiff.vocabulary import Moment, Role

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace


def describe_gaps(
    baseline: "Arm", candidate: "Arm", pairing: Pairing, pairs: "tuple[PairTrace, ...]"
) -> list[str]:
    """One line for each thing that was not seen or found no partner."""
    gaps = []
    for pair in pairs:
        for line in (pair.trace.candidate, pair.trace.baseline):
            gaps += _unwritten(line) + _skipped(line)
    gaps += _missing_sites(baseline, candidate, pairs) + _without_rows(baseline, candidate)
    ours = {part.request for pair in pairs for part in pair.trace.candidate.parts}
    theirs = {part.request for pair in pairs for part in pair.trace.baseline.parts}
    for side, other, lone, helped, arm in (
        ("candidate", "baseline", pairing.unpaired_candidate, ours, candidate),
        ("baseline", "candidate", pairing.unpaired_baseline, theirs, baseline),
    ):
        gaps += [
            f"request {prompt.name!r} of the {side} has no partner in the {other}; "
            f"{arm.dump.path.name}::REQUEST compares one request"
            for prompt in lone
            if prompt.request not in helped
        ]
    return gaps


def count_behind(baseline: "Arm", candidate: "Arm", pairs: "tuple[PairTrace, ...]") -> int:
    """Cells past the last position up to which their request was compared."""
    return sum(
        _behind(arm, [(pair, line) for pair, line in zip(pairs, lines, strict=True)])
        for arm, lines in (
            (baseline, [pair.trace.baseline for pair in pairs]),
            (candidate, [pair.trace.candidate for pair in pairs]),
        )
    )


def _behind(arm: "Arm", lines: "list[tuple[PairTrace, Line]]") -> int:
    reached: dict[int, int] = {}
    for pair, line in lines:
        forced = pair.pair.kind is PairKind.FORCED
        for part in line.parts[-1:] if forced else line.parts:
            stop = min(part.stop, pair.pair.comparable)
            reached[part.request] = max(reached.get(part.request, 0), stop)
    beyond = 0
    for request, limit in reached.items():
        for site, moment in arm.index.columns(request):
            if moment is Moment.COMPUTED:
                found = arm.index.find(request, site, moment)
                beyond += int(np.maximum(found.stop - np.maximum(found.start, limit), 0).sum())
    return beyond


def _unwritten(line: Line) -> list[str]:
    """Cached values whose writer no pass recorded."""
    if not line.unobserved:
        return []
    name, source = labels(line.dump)[line.request], line.foreign_source
    where = f"positions [0, {line.unobserved}) in the cache of request {name!r}"
    if source is not None:
        return [f"{line.dump.arm}: {where} were filled by request {source!r}, with other tokens"]
    gap = f"{line.dump.arm}: the writer of {where} is unobserved; record from an empty cache on"
    return [gap]


def _skipped(line: Line) -> list[str]:
    """Positions behind a hit that no pass of the request computed."""
    dump, found = line.dump, []
    for part in line.parts:
        told = dump.requests[part.request].told
        runs = dump.own_runs[dump.own_runs["request"] == part.request]
        if told is None or not len(runs) or (first := int(runs["start"].min())) <= told:
            continue
        found.append(
            f"{dump.arm}: positions [{told}, {first}) of request {labels(dump)[part.request]!r} "
            "lie behind its hit, and no pass computed them"
        )
    return found


def _without_rows(baseline: "Arm", candidate: "Arm") -> list[str]:
    """Sites whose tensors have no row for each token: the same chunks would be needed."""
    names = {
        arm.dump.sites[int(site)].name
        for arm in (baseline, candidate)
        for site in np.unique(arm.dump.observations["site"][is_whole(arm.dump)])
    }
    shown = ", ".join(sorted(names)[:3])
    return [f"{len(names)} sites have no row a token and were not compared: {shown}"] * bool(names)


def _missing_sites(baseline: "Arm", candidate: "Arm", pairs: "tuple[PairTrace, ...]") -> list[str]:
    ours, theirs = (
        {(site.name, site.role) for site in arm.dump.sites} for arm in (candidate, baseline)
    )
    seen = _seen(candidate, [pair.trace.candidate for pair in pairs])
    known = _seen(baseline, [pair.trace.baseline for pair in pairs])
    found = []
    for side, sites in (("baseline", seen - theirs), ("candidate", known - ours)):
        if sites:
            shown = ", ".join(name for name, _ in sorted(sites)[:3])
            found.append(f"{len(sites)} sites are missing in the {side}: {shown}")
    return found


def _seen(arm: "Arm", lines: list[Line]) -> set[tuple[str, Role]]:
    """Sites that a compared line was seen at: what only filled its cache may go further."""
    found = set()
    for line in lines:
        for part in line.parts:
            last = part is line.parts[-1]
            for index, moment in arm.index.columns(part.request):
                rows = arm.index.find(part.request, index, moment)
                if last or len(rows.clip(part.start, part.stop)):
                    site = arm.dump.sites[index]
                    found.add((site.name, site.role))
    return found
