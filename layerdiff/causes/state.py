"""Causes that show in what a pass read from a cache: states, and rows of a KV cache."""

from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts, Seen
from layerdiff.vocabulary import Cause, Moment, TensorKind

_ROWS = 32
"""Rows of an origin that are searched for in other requests."""


def _found_in_cache(facts: OriginFacts) -> bool:
    """Whether the origin is in what was found in a cache, not in what a kernel made."""
    cached = facts.site.kind.is_state or facts.site.kind.is_kv
    return cached and (facts.find.moment is Moment.IN or facts.find.breach)


def _what(facts: OriginFacts) -> str:
    return facts.site.kind.word.replace("_", " ")


def zero(facts: OriginFacts) -> Ruling | None:
    """state-zero: what was read is all zero although the prefix is not empty."""
    if not _found_in_cache(facts) or not facts.site.kind.is_state:
        return None
    position = facts.find.position
    if facts.all_zero:
        healthy = facts.digests(0)
        own = facts.digests(1)
        if healthy is not None and own is not None and (healthy == own).all():
            return Ruling(Cause.STATE_ZERO, False, "the baseline's state is all zero there too")
        return Ruling(
            Cause.STATE_ZERO,
            True,
            f"every bit of the {_what(facts)} is zero although {position} tokens lie before it",
        )
    return Ruling(Cause.STATE_ZERO, False, f"the {_what(facts)} is not all zero")


def wrong_position(facts: OriginFacts) -> Ruling | None:
    """state-wrong-position: the same prefix's state, at another position."""
    if not _found_in_cache(facts) or not facts.site.kind.is_state:
        return None
    if facts.all_zero:
        return None
    position = facts.find.position
    seen = facts.elsewhere()
    for other in seen:
        if other.position != position and _on_the_same_text(facts, other):
            return Ruling(
                Cause.STATE_WRONG_POSITION,
                True,
                f"what was read at position {position} is the state at position "
                f"{other.position} of request {other.request_name!r} ({other.side})",
            )
    return Ruling(
        Cause.STATE_WRONG_POSITION,
        False,
        f"it equals no other recorded state of the same prefix ({_states_known(facts)})",
    )


def _on_the_same_text(facts: OriginFacts, other: Seen) -> bool:
    """Whether *other* sums up a prefix or a continuation of the origin's own tokens."""
    if other.chain is None:
        return False
    at = facts.find.position
    if other.position < at:
        return facts.prefix(other.position) == other.chain
    return facts.prefix(at) == facts.prefix_of(other, at)


def foreign(facts: OriginFacts) -> Ruling | None:
    """state-foreign: values under another prefix hold these bits, and none under this one.

    Layer-0 values and convolutions depend on a few tokens alone, and one row may be equal by
    chance of its token: neither is enough.
    """
    if not _found_in_cache(facts) or facts.all_zero:
        return None
    rows = facts.find.positions[:_ROWS].tolist()
    seen = [facts.elsewhere(position) for position in rows]
    if not seen[0]:
        words = f"it equals no value of another request ({_states_known(facts)})"
        return Ruling(Cause.STATE_FOREIGN, False, words)
    own = [facts.prefix(position) for position in rows]
    for prefix, found in zip(own, seen, strict=True):
        if not found:
            return Ruling(Cause.STATE_FOREIGN, False, "only some rows equal another request's")
        if any(other.chain is None or other.chain == prefix for other in found):
            return Ruling(Cause.STATE_FOREIGN, False, "the same prefix has this value too")
    others = [other for other in seen[0] if not _on_the_same_text(facts, other)]
    if not others:
        return Ruling(Cause.STATE_FOREIGN, False, "only values of the same prefix equal it")
    if _depends_on_few_tokens(facts) or (facts.site.kind.is_kv and len(rows) < 2):
        words = "it equals another request's, but may do so by its last tokens alone"
        return Ruling(Cause.STATE_FOREIGN, False, words)
    other = others[0]
    return Ruling(
        Cause.STATE_FOREIGN,
        True,
        f"it is the value of request {other.request_name!r} at position {other.position} "
        f"({other.side}), under another prefix, and of no request with this one",
    )


def _depends_on_few_tokens(facts: OriginFacts) -> bool:
    """Whether the value is made of tokens alone, before any layer has mixed them."""
    layers = [s.layer_index for s in facts.trace.order if s.layer_index is not None]
    first = facts.site.layer_index == min(layers, default=None)
    return first and facts.site.kind in (TensorKind.KV_VALUE, TensorKind.CONV_STATE)


def _states_known(facts: OriginFacts) -> str:
    return f"{facts.written.count(facts)} recorded values searched"


def corrupted(facts: OriginFacts) -> Ruling | None:
    """state-corrupted: not what the arm itself left there, and nothing known."""
    if not _found_in_cache(facts):
        return None
    if not facts.find.breach:
        if facts.find.position in facts.trace.breaches[facts.site.index].unwritten:
            return None
        return Ruling(Cause.STATE_CORRUPTED, False, "it is what its writer left")
    if facts.all_zero and facts.site.kind.is_state:
        return Ruling(Cause.STATE_CORRUPTED, False, "it is all zero")
    if facts.elsewhere():
        return Ruling(Cause.STATE_CORRUPTED, False, "it equals another recorded value")
    return Ruling(
        Cause.STATE_CORRUPTED,
        True,
        "the bits are not those that this arm last saw there, and equal nothing recorded",
    )
