"""What the name of an arm promises, and whether the dump keeps it."""

from typing import TYPE_CHECKING

from layerdiff.custody import follow_custody
from layerdiff.format.reader import Dump
from layerdiff.lineage import Line, line_steps
from layerdiff.model import ArmCause
from layerdiff.pairing import Pairing, labels
from layerdiff.vocabulary import Cause

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace

COLD_ARMS = frozenset({"cold", "cold-repeat", "cold-split", "off", "no-state"})
"""Arms that must compute every position themselves."""
WARM_ARMS = frozenset({"warm", "warm-repeat"})
"""Arms in which at least one compared request must have been served a hit."""


def hits(dump: Dump, requests: list[int]) -> dict[str, int | None]:
    """Positions that each request took from a cache; None where that is not known."""
    names = labels(dump)
    return {names[r]: dump.requests[r].hit for r in requests}


def told_otherwise(lines: list[Line]) -> list[str]:
    """Hits that were told of requests whose own passes begin below them."""
    found = []
    for line in lines:
        names = labels(line.dump)
        for part in line.parts:
            request = line.dump.requests[part.request]
            if request.told != request.hit:
                found.append(
                    f"{line.dump.arm}: a hit of {request.told} was told of request "
                    f"{names[part.request]!r}, whose own passes begin at {request.hit}: "
                    f"{request.hit} were served"
                )
    return list(dict.fromkeys(found))


def arm_causes(baseline: Dump, candidate: Dump, pairing: Pairing) -> list[ArmCause]:
    """Promises that an arm breaks."""
    found = []
    sides = (
        (baseline, [pair.baseline.request for pair in pairing.pairs]),
        (candidate, [pair.candidate.request for pair in pairing.pairs]),
    )
    for dump, requests in sides:
        served = hits(dump, requests)
        if dump.arm in COLD_ARMS:
            found += [
                ArmCause(
                    Cause.COLD_NOT_COLD,
                    f"request {name!r} of arm {dump.arm!r} took {hit} positions from a cache",
                )
                for name, hit in served.items()
                if hit
            ]
        known = [hit for hit in served.values() if hit is not None]
        one_dump = baseline.path == candidate.path
        if dump.arm in WARM_ARMS and not one_dump and len(known) == len(served) and not any(known):
            found.append(
                ArmCause(
                    Cause.NO_REUSE,
                    f"no request of arm {dump.arm!r} was served from a cache: this run tests "
                    "nothing about reuse",
                )
            )
    return list(dict.fromkeys(found))


def broken_baselines(pairs: "tuple[PairTrace, ...]", baseline: "Arm") -> list[str]:
    """Where the baseline's own cache changed, so that it cannot be trusted there.

    Looked for where anything is wrong: at every origin, and where the candidate's cache changed
    and agrees with the baseline all the same.
    """
    found = []
    for pair in pairs:
        line = pair.trace.baseline
        steps = line_steps(line)
        broken = any(len(breaches.look) for breaches in pair.trace.breaches.values())
        for site in line.dump.sites if pair.trace.finds or broken else ():
            if site.kind.is_kv or site.kind.is_state:
                look = follow_custody(line, baseline.store, site, steps).look
                if len(look):
                    found.append(
                        f"the baseline's own cache changed: {site.name} at {look.position[0]} is "
                        "not what was last seen of it"
                    )
    return found


def arm_gaps(dump: Dump, requests: list[int]) -> list[str]:
    """What a dump did not observe, in words."""
    gaps = [f"{dump.arm}: {text}" for text in (*dump.gaps, *dump.faults)]
    if not dump.closed:
        gaps.append(
            f"{dump.arm}: the recording was not closed (engine killed or still running); "
            f"{len(dump.passes)} finished passes are here"
        )
    gaps += [
        f"{dump.arm}: the hit of request {name!r} is unknown"
        for name, hit in hits(dump, requests).items()
        if hit is None
    ]
    return gaps
