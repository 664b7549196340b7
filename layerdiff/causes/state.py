"""Causes that show in what a pass read from a cache: states, and rows of a KV cache."""

from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts, Seen
from layerdiff.vocabulary import Cause, Moment


def _found_in_cache(facts: OriginFacts) -> bool:
    cached = facts.site.kind.is_state or facts.site.kind.is_kv
    return cached and facts.find.moment is not Moment.COMPUTED


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


def _elsewhere(facts: OriginFacts) -> list[Seen] | None:
    """Where else the value that was read stands in either dump; None when it is all zero."""
    digests = facts.digests(1)
    if digests is None or facts.all_zero:
        return None
    return facts.known.get(digests.tobytes(), [])


def wrong_position(facts: OriginFacts) -> Ruling | None:
    """state-wrong-position: the same prefix's state, at another position."""
    if not _found_in_cache(facts) or not facts.site.kind.is_state:
        return None
    seen = _elsewhere(facts)
    if seen is None:
        return None
    position = facts.find.position
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
    """state-foreign: only versions under another prefix hold these bits."""
    if not _found_in_cache(facts):
        return None
    seen = _elsewhere(facts)
    if seen is None:
        return None
    if not seen:
        return Ruling(
            Cause.STATE_FOREIGN,
            False,
            f"it equals no value of another request ({_states_known(facts)})",
        )
    own = facts.prefix(facts.find.position)
    if any(other.chain is None or other.chain == own for other in seen):
        return Ruling(Cause.STATE_FOREIGN, False, "the same prefix has this value too")
    others = [other for other in seen if not _on_the_same_text(facts, other)]
    if not others:
        return Ruling(Cause.STATE_FOREIGN, False, "only states of the same prefix equal it")
    if facts.site.kind.is_kv and len(facts.find.positions) < 2:
        return Ruling(
            Cause.STATE_FOREIGN, False, "a single row equals another request's: too little to tell"
        )
    other = others[0]
    return Ruling(
        Cause.STATE_FOREIGN,
        True,
        f"it is the value of request {other.request_name!r} at position {other.position} "
        f"({other.side}), under another prefix, and of no request with this one",
    )


def _states_known(facts: OriginFacts) -> str:
    return f"{sum(len(seen) for seen in facts.known.values())} recorded values searched"


def corrupted(facts: OriginFacts) -> Ruling | None:
    """state-corrupted: not what the arm itself left there, and nothing known."""
    if not _found_in_cache(facts):
        return None
    if not facts.find.breach:
        return Ruling(
            Cause.STATE_CORRUPTED, False, "it is what its writer left, or no writer was recorded"
        )
    if facts.all_zero and facts.site.kind.is_state:
        return Ruling(Cause.STATE_CORRUPTED, False, "it is all zero")
    if any(True for _ in _elsewhere(facts) or ()):
        return Ruling(Cause.STATE_CORRUPTED, False, "it equals another recorded value")
    return Ruling(
        Cause.STATE_CORRUPTED,
        True,
        "the bits are not those that this arm last saw there, and equal nothing recorded",
    )
