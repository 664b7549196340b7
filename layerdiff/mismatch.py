"""Origins that lie before the first layer: other tokens, other weights."""

from typing import TYPE_CHECKING

from layerdiff.model import (
    Evidence,
    KernelPair,
    Origin,
    ReachOut,
    Severity,
)
from layerdiff.pairing import PairKind
from layerdiff.shifted import runs_again
from layerdiff.vocabulary import Cause, Confidence, Level, OriginKind, SizeClass

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
        next_step="run both arms with the same input, then compare again",
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
    """An origin for a generated token that differs though nothing before it does."""
    base, cand, at = pair.pair.baseline, pair.pair.candidate, pair.pair.comparable
    given = max(base.given, cand.given)
    if pair.trace.finds or at < given or at >= min(len(base.chain), len(cand.chain)):
        return None
    fact = f"the generated token at position {at} differs; everything compared before it agrees"
    return _origin(cand.name, "tokens", at, Cause.UNKNOWN, fact)


def weights_origin(request: str, fact: str) -> Origin:
    """An origin for weights that differ."""
    return _origin(request, "weights", 0, Cause.WEIGHTS_MISMATCH, fact)
