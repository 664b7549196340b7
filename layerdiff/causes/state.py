"""Causes that show in what a pass read from a cache: states, and rows of a KV cache."""

from dataclasses import replace

from layerdiff.causes.cached import (
    depends_on_few_tokens,
    found_in_cache,
    is_rejected,
    on_the_same_text,
    reader,
    what,
)
from layerdiff.causes.casts import dtype_requant
from layerdiff.causes.layout import layout
from layerdiff.causes.rewritten import wrong_block
from layerdiff.causes.ruling import Ruling
from layerdiff.causes.unwritten import left_as_read
from layerdiff.compare import State
from layerdiff.facts import OriginFacts, Seen
from layerdiff.slots import foreign_slot
from layerdiff.vocabulary import Cause

_ROWS = 32
"""Rows of an origin that are searched for in other requests."""


def zero(facts: OriginFacts) -> Ruling | None:
    """state-zero: what was read is all zero although the prefix is not empty."""
    if not found_in_cache(facts) or not facts.site.kind.is_state:
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
            f"every bit of the {what(facts)} is zero although {position} tokens lie before it",
        )
    return Ruling(Cause.STATE_ZERO, False, f"the {what(facts)} is not all zero")


def wrong_position(facts: OriginFacts) -> Ruling | None:
    """state-wrong-position: the same prefix's state, at another position."""
    if not found_in_cache(facts) or not facts.site.kind.is_state:
        return None
    if facts.all_zero:
        return None
    position = facts.find.position
    excluded = _belongs_elsewhere(facts) or left_as_read(facts)
    if excluded:
        return Ruling(Cause.STATE_WRONG_POSITION, False, excluded)
    for other in facts.elsewhere():
        if other.position != position and on_the_same_text(facts, other):
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


def foreign(facts: OriginFacts) -> Ruling | None:
    """state-foreign: values under another prefix hold these bits, and none under this one.

    Layer-0 values and convolutions depend on a few tokens alone, and one row may be equal by
    chance of its token: neither is enough.
    """
    if not found_in_cache(facts) or facts.all_zero:
        return None
    held = _belongs_elsewhere(facts)
    if held:
        return Ruling(Cause.STATE_FOREIGN, True, held)
    misread = wrong_block(facts)
    if misread:
        return Ruling(Cause.STATE_FOREIGN, False, misread)
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
    others = [
        other
        for other in seen[0]
        if not (on_the_same_text(facts, other) or is_rejected(facts, other))
    ]
    if not others:
        return Ruling(Cause.STATE_FOREIGN, False, "only values of the same prefix equal it")
    weak = depends_on_few_tokens(facts) or (facts.site.kind.is_kv and len(rows) < 2)
    if weak and not _with_others(facts, others[0]):
        words = "it equals another request's, but may do so by its last tokens alone"
        return Ruling(Cause.STATE_FOREIGN, False, words)
    other = others[0]
    return Ruling(
        Cause.STATE_FOREIGN,
        True,
        f"it is the value of request {other.request_name!r} at position {other.position} "
        f"({other.side}), under another prefix, and of no request with this one",
    )


def _with_others(facts: OriginFacts, other: Seen) -> bool:
    """Whether what else was read there, and sums up the whole prefix, is of the same request."""
    at, found = facts.find.position, False
    for (_, moment), column in facts.trace.columns.items():
        if moment is not facts.find.moment or not column.site.kind.is_state:
            continue
        if at >= len(column.diff.state) or column.diff.state[at] != State.DIFFERS:
            continue
        beside = replace(facts, find=replace(facts.find, site=column.site), recognised={})
        if depends_on_few_tokens(beside):
            continue
        where = [(seen.side, seen.request, seen.position) for seen in beside.elsewhere()]
        if (other.side, other.request, other.position) not in where:
            return False
        found = True
    return found


def _belongs_elsewhere(facts: OriginFacts) -> str | None:
    """What the books of slots say against the state: bits cannot tell equal prefixes apart."""
    made = facts.pass_of(1)
    if not facts.site.kind.is_state or made is None:
        return None
    return foreign_slot(facts.trace.candidate.dump, reader(facts), facts.find.position, made)


def _states_known(facts: OriginFacts) -> str:
    return f"{facts.written.count(facts)} recorded values searched"


def corrupted(facts: OriginFacts) -> Ruling | None:
    """state-corrupted: not what the arm itself left there, and nothing known."""
    if not found_in_cache(facts):
        return None
    if not facts.find.breach:
        if facts.find.position in facts.trace.breaches[facts.site.index].unwritten:
            return None
        return Ruling(Cause.STATE_CORRUPTED, False, "it is what its writer left")
    if facts.all_zero and facts.site.kind.is_state:
        return Ruling(Cause.STATE_CORRUPTED, False, "it is all zero")
    if facts.elsewhere():
        return Ruling(Cause.STATE_CORRUPTED, False, "it equals another recorded value")
    for ruling in (layout(facts), dtype_requant(facts)):
        if ruling and ruling.fits:
            return Ruling(Cause.STATE_CORRUPTED, False, f"it is known: {ruling.because}")
    return Ruling(
        Cause.STATE_CORRUPTED,
        True,
        "the bits are not those that this arm last saw there, and equal nothing recorded",
    )
