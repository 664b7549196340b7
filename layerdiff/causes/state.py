"""Causes that show in what a pass read from a cache: states, and rows of a KV cache."""

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
from layerdiff.causes.searched import elsewhere, same_text_beside, with_others
from layerdiff.causes.unwritten import left_as_read
from layerdiff.facts import OriginFacts, is_zero
from layerdiff.slots import foreign_slot
from layerdiff.vocabulary import Cause
from layerdiff.written import Seen

_ROWS = 32
"""Rows of an origin that are searched for in other requests."""


def zero(facts: OriginFacts) -> Ruling | None:
    """state-zero: what was read is all zero although the prefix is not empty.

    Of a KV cache several rows, since one row may be zero by its token.
    """
    if not found_in_cache(facts):
        return None
    if facts.site.kind.is_kv:
        return _zero_rows(facts)
    position = facts.find.position
    if facts.all_zero:
        if position == 0 or _zero_in_baseline(facts, position):
            return Ruling(Cause.STATE_ZERO, False, "it is all zero in the baseline too")
        return Ruling(
            Cause.STATE_ZERO,
            True,
            f"every element of the {what(facts)} is zero although {position} tokens lie before it",
        )
    return Ruling(Cause.STATE_ZERO, False, f"the {what(facts)} is not all zero")


def _zero_rows(facts: OriginFacts) -> Ruling | None:
    if not facts.all_zero:
        return None
    rows = facts.find.positions[:_ROWS].tolist()
    if len(rows) < 2 or not all(facts.zero_at(row) for row in rows):
        return Ruling(Cause.STATE_ZERO, False, "only a row of it is zero")
    if all(_zero_in_baseline(facts, row) for row in rows):
        return Ruling(Cause.STATE_ZERO, False, "the rows are zero in the baseline too")
    return Ruling(
        Cause.STATE_ZERO,
        True,
        f"every element of the rows of {what(facts)} read from position {rows[0]} on is zero, "
        "although tokens were computed there",
    )


def _zero_in_baseline(facts: OriginFacts, position: int) -> bool:
    cell = facts.cell(0, position)
    return bool(len(cell)) and is_zero(facts.stores[0], cell)


def wrong_position(facts: OriginFacts) -> Ruling | None:
    """state-wrong-position: the same prefix's state, at another position.

    What sums up a few tokens may be found under another text too: then the states of the whole
    prefix that were read beside it decide.
    """
    if not found_in_cache(facts) or not facts.site.kind.is_state:
        return None
    if facts.all_zero:
        return None
    position = facts.find.position
    excluded = _belongs_elsewhere(facts) or left_as_read(facts)
    if excluded:
        return Ruling(Cause.STATE_WRONG_POSITION, False, excluded)
    seen = elsewhere(facts)
    for other in seen:
        if other.position != position and on_the_same_text(facts, other):
            words = _by_few_tokens(facts, other, seen)
            if words:
                return Ruling(Cause.STATE_WRONG_POSITION, False, words)
            cast = f", within {other.apart:.1e} as a cast leaves it" if other.apart else ""
            return Ruling(
                Cause.STATE_WRONG_POSITION,
                True,
                f"what was read at position {position} is the state at position "
                f"{other.position} of request {other.request_name!r} ({other.side}){cast}",
            )
    return Ruling(
        Cause.STATE_WRONG_POSITION,
        False,
        f"it equals no other recorded state of the same prefix ({_states_known(facts)})",
    )


def _by_few_tokens(facts: OriginFacts, other: Seen, seen: list[Seen]) -> str | None:
    """What leaves open whose value it is, where it sums up its last tokens alone."""
    if not depends_on_few_tokens(facts):
        return None
    beside = same_text_beside(facts, other.position)
    if beside is False:
        return "it may equal that state by its last tokens; the states read beside it do not"
    if beside is None and not all(on_the_same_text(facts, place) for place in seen):
        return "it may equal that state by its last tokens: another text has this value too"
    return None


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
    if len(rows) == 1:
        seen = [elsewhere(facts)]
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
    if weak and not with_others(facts, others[0]):
        words = "it equals another request's, but may do so by its last tokens alone"
        return Ruling(Cause.STATE_FOREIGN, False, words)
    other = others[0]
    return Ruling(
        Cause.STATE_FOREIGN,
        True,
        f"it is the value of request {other.request_name!r} at position {other.position} "
        f"({other.side}), under another prefix, and of no request with this one",
    )


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
    zeros = zero(facts)
    if zeros and zeros.fits:
        return Ruling(Cause.STATE_CORRUPTED, False, "it is all zero")
    if elsewhere(facts):
        return Ruling(Cause.STATE_CORRUPTED, False, "it equals another recorded value")
    for ruling in (layout(facts), dtype_requant(facts)):
        if ruling and ruling.fits:
            return Ruling(Cause.STATE_CORRUPTED, False, f"it is known: {ruling.because}")
    return Ruling(
        Cause.STATE_CORRUPTED,
        True,
        f"{_nans(facts)}the bits are not those that this arm last saw there, and equal nothing "
        "recorded",
    )


def _nans(facts: OriginFacts) -> str:
    """What to say first where the value that was read is no number."""
    cell = facts.cell(1)
    record = facts.lines[1].dump.observations[cell.observation] if len(cell) else ()
    count = sum(int(row["nan_count"]) for row in record)
    return f"{count} of its elements are NaN; " if count else ""
