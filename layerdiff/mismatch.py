"""Origins that lie before the first layer: other tokens, other weights."""

from dataclasses import replace
from typing import TYPE_CHECKING

from layerdiff.compare import State
from layerdiff.format.reader import Dump
from layerdiff.model import (
    Evidence,
    KernelPair,
    Origin,
    ReachOut,
    Severity,
)
from layerdiff.next_steps import STEPS
from layerdiff.pairing import PairKind
from layerdiff.rounds import accepted_rounds
from layerdiff.shifted import runs_again
from layerdiff.trace import Trace
from layerdiff.vocabulary import (
    Cause,
    Confidence,
    Level,
    OriginKind,
    Role,
    SizeClass,
    TensorKind,
)

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace


def _origin(request: str, tensor: str, position: int, cause: Cause, fact: str) -> Origin:
    return Origin(
        rank=0,
        request_id=request,
        role="target",
        layer_index=None,
        layer_kind="",
        site=tensor,
        tensor=tensor,
        moment=None,
        position=position,
        positions=1,
        level=Level.BITS,
        origin_kind=OriginKind.INPUT,
        cause=cause,
        also=(),
        confidence=Confidence.CONSISTENT,
        kernel=KernelPair(None, None, None),
        evidence=(Evidence(fact, True),),
        ruled_out=(),
        severity=Severity(None, None, SizeClass.UNKNOWN),
        reach=ReachOut(0, (), False, None),
        next_step=STEPS.get(cause, STEPS[Cause.REQUEST_MISMATCH]),
    )


def request_origin(pair: "PairTrace") -> Origin | None:
    """An origin for given tokens that differ, or None where they agree."""
    at = pair.pair.mismatch_at
    base, cand = pair.pair.baseline, pair.pair.candidate
    if at is None or pair.pair.kind is PairKind.SHIFTED:
        return None
    fact = (
        f"the given tokens of {base.name!r} ({base.given}) and {cand.name!r} ({cand.given}) "
        f"differ from position {at} on"
    )
    return _origin(cand.name, "tokens", at, Cause.REQUEST_MISMATCH, fact)


def length_origin(pair: "PairTrace", baseline: "Arm", candidate: "Arm") -> Origin | None:
    """An origin for a token that was repeated, left out, or run again after a whole-prompt hit."""
    shift, at = pair.pair.shift, pair.pair.comparable
    cand = pair.pair.candidate
    line = pair.trace.candidate
    if shift:
        what = "are missing" if shift > 0 else "were given twice"
        fact = (
            f"from position {at} on the candidate runs the baseline's tokens of position "
            f"{at + shift}: {abs(shift)} of the cache's rows {what}"
        )
        return _origin(cand.name, "tokens", at, Cause.KV_LENGTH, fact)
    if cand.given and line.hit >= cand.given and runs_again(candidate, baseline, pair):
        fact = (
            f"the cache held all {cand.given} given tokens, and the last of them ran again at "
            f"position {line.hit}, on top of a cache that already held it"
        )
        return _origin(cand.name, "tokens", line.hit, Cause.KV_LENGTH, fact)
    return None


def flip_origin(pair: "PairTrace") -> Origin | None:
    """An origin for a generated token that differs though what it was sampled from agrees."""
    base, cand, at = pair.pair.baseline, pair.pair.candidate, pair.pair.comparable
    given = max(base.given, cand.given)
    if at < given or at >= min(len(base.chain), len(cand.chain)):
        return None
    unlike = _sampling(pair)
    if _logits_agree(pair.trace, at - 1):
        fact = f"the generated token at position {at} differs, and the logits before it agree"
        if unlike is not None:
            return _origin(cand.name, "tokens", at, Cause.REQUEST_MISMATCH, f"{fact}: {unlike}")
        by_chance = _samples(pair.trace.candidate.dump)
        cause = Cause.UNKNOWN if by_chance else Cause.OUTPUT_BUFFER
        fact += ": it was sampled by chance" if by_chance else ""
        return _origin(cand.name, "tokens", at, cause, fact)
    if pair.trace.finds:
        return None
    fact = f"the generated token at position {at} differs; everything compared before it agrees"
    return _origin(cand.name, "tokens", at, Cause.UNKNOWN, fact)


def _logits_agree(trace: Trace, position: int) -> bool:
    """Whether logits of the target were compared at a position, and all of them agree."""
    states = [
        column.diff.state[position]
        for column in trace.columns.values()
        if column.site.kind is TensorKind.LOGITS and column.site.role is Role.TARGET
    ]
    return bool(states) and all(state == State.AGREES for state in states)


def _sampling(pair: "PairTrace") -> str | None:
    """What the headers say of sampling, where that differs."""
    theirs, ours = (
        line.dump.header.get("sampling") for line in (pair.trace.baseline, pair.trace.candidate)
    )
    if theirs is None or ours is None or theirs == ours:
        return None
    return f"sampling is {ours}, and {theirs} in the baseline"


def _samples(dump: Dump) -> bool:
    """Whether the header says that tokens are drawn, not taken."""
    sampling = dump.header.get("sampling")
    return isinstance(sampling, dict) and bool(sampling.get("temperature"))


def accepted_origin(pair: "PairTrace") -> Origin | None:
    """An origin for a round that accepted another number of drafts though every cell agrees."""
    base, cand = (accepted_rounds(line) for line in (pair.trace.baseline, pair.trace.candidate))
    starts = (start for start in base.keys() & cand.keys() if base[start] != cand[start])
    at = min((start for start in starts if start < pair.pair.comparable), default=None)
    seen = any((column.diff.state == State.AGREES).any() for column in pair.trace.columns.values())
    if at is None or pair.trace.finds or not seen:
        return None
    fact = (
        f"of the drafts at position {at}, {cand[at]} were accepted, and {base[at]} in the "
        "baseline; every compared cell agrees"
    )
    name = pair.pair.candidate.name
    return replace(
        _origin(name, "accepted", at, Cause.DRAFTER_STATE, fact), role=Role.DRAFTER.word
    )


def weights_origin(request: str, fact: str) -> Origin:
    """An origin for weights that differ."""
    return _origin(request, "weights", 0, Cause.WEIGHTS_MISMATCH, fact)
