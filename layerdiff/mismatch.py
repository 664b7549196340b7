"""Origins that lie before the first layer: other tokens, other weights."""

from typing import TYPE_CHECKING

from layerdiff.model import (
    Evidence,
    KernelPair,
    Origin,
    ReachOut,
    Severity,
)
from layerdiff.vocabulary import Cause, Confidence, Level, OriginKind, SizeClass

if TYPE_CHECKING:
    from layerdiff.comparison import PairTrace


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
    if at is None:
        return None
    base, cand = pair.pair.baseline, pair.pair.candidate
    fact = (
        f"the given tokens of {base.name!r} ({base.given}) and {cand.name!r} ({cand.given}) "
        f"differ from position {at} on"
    )
    return _origin(cand.name, "tokens", at, Cause.REQUEST_MISMATCH, fact)


def weights_origin(request: str, fact: str) -> Origin:
    """An origin for weights that differ."""
    return _origin(request, "weights", 0, Cause.WEIGHTS_MISMATCH, fact)
