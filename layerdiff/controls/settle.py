"""The report, with what the controls decided."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from layerdiff.comparison import Comparison
from layerdiff.controls import rulings
from layerdiff.controls.deciding import TOLD, decide, decided_by
from layerdiff.controls.decision import Decision
from layerdiff.controls.kernels import has_mates, poisons
from layerdiff.controls.plan import ControlRun, describe
from layerdiff.describe import origin_kind
from layerdiff.facts import OriginFacts
from layerdiff.masked import find_masked
from layerdiff.model import Evidence, Origin, Report
from layerdiff.next_steps import STEPS
from layerdiff.vocabulary import (
    Cause,
    Confidence,
    Level,
    Moment,
    OriginKind,
    Role,
    Verdict,
)

_ASKED = 8
"""Origins that are given controls of their own."""


def settle(main: Comparison, controls: Sequence[ControlRun]) -> Report:
    """The main report with causes decided, confidence raised and controls listed."""
    report = main.report
    origins = tuple(
        origin if facts is None else _settled(origin, facts, controls)
        for origin, facts in zip(report.origins, main.facts, strict=True)
    )
    report = replace(
        report,
        origins=origins,
        controls=tuple(describe(control) for control in controls),
        masked=find_masked(main, origins, _split(controls)),
        warnings=(*report.warnings, *_warnings(origins, controls)),
    )
    return _against_reference(report, controls)


def _settled(origin: Origin, facts: OriginFacts, controls: Sequence[ControlRun]) -> Origin:
    decision = decide(origin, facts, controls)
    excluded = {found.cause for found in decision.ruled_out}
    fitting = [c for c in (origin.cause, *origin.also) if c is not Cause.UNKNOWN]
    also = tuple(c for c in fitting if c is not decision.cause and c not in excluded)
    proved = []
    if _located(facts, controls) or decision.cause is Cause.NONDETERMINISM:
        proved.append("location")
    if decision.mechanism:
        proved.append("mechanism")
    return replace(
        origin,
        cause=decision.cause,
        also=also,
        proved=tuple(proved),
        confidence=_confidence(origin, decision, proved),
        evidence=(*origin.evidence, *decision.evidence),
        ruled_out=(*origin.ruled_out, *decision.ruled_out),
        next_step=_next_step(origin, decision),
    )


def _located(facts: OriginFacts, controls: Sequence[ControlRun]) -> bool:
    """Whether both arms were repeated and the cell never changed."""
    seen = {"cold-repeat": False, "warm-repeat": False}
    for control in controls:
        for name in seen:
            if control.name.startswith(name):
                same = rulings.repeats(control, facts)
                if same is False:
                    return False
                seen[name] |= same is True or name == "cold-repeat"
    return all(seen.values())


def _confidence(origin: Origin, decision: Decision, proved: Sequence[str]) -> Confidence:
    if decision.noisy:
        return Confidence.SUSPECTED
    if "location" in proved and "mechanism" in proved:
        return Confidence.PROVED
    if decision.open or decision.cause is Cause.UNKNOWN:
        return Confidence.SUSPECTED
    return origin.confidence if decision.cause is origin.cause else Confidence.CONSISTENT


def _next_step(origin: Origin, decision: Decision) -> str:
    return STEPS.get(decision.cause, origin.next_step)


def _warnings(origins: Sequence[Origin], controls: Sequence[ControlRun]) -> list[str]:
    """Noise that no origin of the main comparison shows."""
    found = []
    named = any(origin.cause is Cause.NONDETERMINISM for origin in origins)
    for control in controls:
        report = control.comparison.report
        if "-repeat" in control.name and report.origins and not named:
            first = report.origins[0]
            found.append(
                f"{report.candidate.arm} does not repeat {report.baseline.arm}: {first.site} "
                f"differs from token {first.position} on"
            )
    return found


def _against_reference(report: Report, controls: Sequence[ControlRun]) -> Report:
    """both-wrong: the arms agree with each other, and a jump parts them from the reference."""
    for control in controls:
        if not control.name.startswith("reference") or report.verdict is Verdict.DIVERGED:
            continue
        found = control.comparison
        jumps = [
            (origin, facts)
            for origin, facts in zip(found.report.origins, found.facts, strict=True)
            if facts is not None and origin.level is Level.JUMP
        ]
        if jumps:
            origins = tuple(
                _both_wrong(replace(origin, rank=rank), facts)
                for rank, (origin, facts) in enumerate(jumps, start=1)
            )
            return replace(report, verdict=Verdict.DIVERGED, origins=origins)
    return report


def _both_wrong(origin: Origin, facts: OriginFacts) -> Origin:
    """An origin of the reference's comparison, as a fault that both arms share.

    Where inputs round otherwise, a choice between nearly equal scores may make a jump of it.
    """
    sure = facts.find.bits and origin.cause is not Cause.DISCRETE_TIE
    tie = "what comes in differs by rounding, and no choice between near ties makes a jump of it"
    return replace(
        origin,
        cause=Cause.BOTH_WRONG,
        also=tuple(c for c in (origin.cause, *origin.also) if c is not Cause.UNKNOWN),
        proved=("location", "mechanism") if sure else (),
        confidence=Confidence.PROVED if sure else Confidence.SUSPECTED,
        evidence=origin.evidence if sure else (*origin.evidence, Evidence(tie, False)),
        next_step=STEPS[Cause.BOTH_WRONG],
    )


def wanted(main: Comparison, ran: Collection[str] = ()) -> tuple[str, ...]:
    """Further controls that would decide something, by name, most telling first."""
    asked: list[str] = []
    for origin, facts in list(zip(main.report.origins, main.facts, strict=True))[:_ASKED]:
        if facts is not None:
            asked += _wanted_by(origin, facts)
    if not main.report.origins:
        asked += _planted(main)
    return tuple(name for name in dict.fromkeys(asked) if name not in ran)


def _wanted_by(origin: Origin, facts: OriginFacts) -> list[str]:
    deciding = decided_by(origin.cause, facts)
    found = [] if deciding is None else [deciding]
    if origin.cause is not Cause.UNKNOWN and origin.cause not in TOLD:
        return found
    if not facts.find.breach:
        found += poisons(facts)
    if has_mates(facts):
        found.append("solo")
    if origin_kind(facts) is OriginKind.STATE:
        found.append("no-state")
    return found


def _split(controls: Sequence[ControlRun]) -> Comparison | None:
    return next((c.comparison for c in controls if c.name == "cold-split"), None)


def _planted(main: Comparison) -> list[str]:
    """Where two arms agree: a change planted in what was restored must be found."""
    dump = main.candidate.dump
    if not any(dump.requests[pair.pair.candidate.request].hit for pair in main.pairs):
        return []
    observations = dump.observations
    read = np.unique(observations["site"][observations["moment"] == Moment.IN])
    layers = [
        site.layer_index
        for site in (dump.sites[int(index)] for index in read)
        if site.role is Role.TARGET and site.layer_index is not None
    ]
    return [f"poison-layer-{min(layers)}"] if layers else []
