"""Causes that show in which rows a KV cache holds, and in what order."""

import numpy as np

from layerdiff.causes.cached import depends_on_few_tokens, on_the_same_text
from layerdiff.causes.offsets import length_confirmed, length_told
from layerdiff.causes.rewritten import handed_on, wrong_block
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.segments import expand
from layerdiff.vocabulary import Cause, Moment

_ROWS = 32
"""Rows of an origin that are searched for at other positions."""


def _rows(facts: OriginFacts) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Digests by position: what was found in the cache, and what should be there.

    What should be there is what the candidate's own line computed, else the baseline's.
    """
    line, store = facts.trace.candidate, facts.stores[1]
    found = expand(line.index.find(line.request, facts.site.index, facts.find.moment))
    found = found.take(found.occurrence == 0)
    if len(found) < 2 or found.parts.max() != 1:
        return None
    computed = expand(line.rows(facts.site.index, Moment.COMPUTED))
    if line.unobserved or not len(computed):
        if facts.twin is None:
            return None
        line, store = facts.trace.baseline, facts.stores[0]
        computed = expand(line.rows(facts.twin.index, Moment.COMPUTED))
    # A drafted row that was rejected was replaced before anything read it.
    last = np.append(computed.position[1:] != computed.position[:-1], True)
    computed = computed.take(last)
    start = int(found.position[0])
    contiguous = np.array_equal(found.position, np.arange(start, start + len(found)))
    if not contiguous or not len(computed) or computed.position[0] > start:
        return None
    expected = store.digests(computed.first, 1)[computed.position >= start, 0]
    return facts.stores[1].digests(found.first, 1)[:, 0], expected, start


def kv_order(facts: OriginFacts) -> Ruling | None:
    """kv-order: the same rows, in another order."""
    if not facts.site.kind.is_kv or facts.find.moment is Moment.COMPUTED:
        return None
    rows = _rows(facts)
    if rows is None:
        return None
    excluded = wrong_block(facts)
    if excluded:
        return Ruling(Cause.KV_ORDER, False, excluded)
    found, expected, _ = rows
    expected = expected[: len(found)]
    moved = int((found != expected).sum()) if len(found) == len(expected) else 0
    if moved and np.array_equal(np.sort(found), np.sort(expected)):
        return Ruling(
            Cause.KV_ORDER, True, f"the cache holds the right rows, {moved} of them out of place"
        )
    return Ruling(Cause.KV_ORDER, False, "the rows are not the same ones in another order")


def kv_length(facts: OriginFacts) -> Ruling | None:
    """kv-length: a row too many, too few or doubled, by the cache's own count or by the rows.

    What follows such a row is shifted. A ring that lost rows holds those of later positions.
    """
    says = length_told(facts)
    if says:
        return Ruling(Cause.KV_LENGTH, True, says)
    if not facts.site.kind.is_kv or facts.find.moment is Moment.COMPUTED:
        confirmed = length_confirmed(facts)
        return Ruling(Cause.KV_LENGTH, False, confirmed) if confirmed else None
    excluded = wrong_block(facts) or handed_on(facts)
    if excluded:
        return Ruling(Cause.KV_LENGTH, False, excluded)
    rows = _rows(facts)
    if rows is None:
        return _of_other_positions(facts)
    found, expected, start = rows
    if np.array_equal(np.sort(found), np.sort(expected[: len(found)])):
        return Ruling(Cause.KV_LENGTH, False, "every row is there once")
    at = facts.find.position - start
    for shift in (1, -1, 2, -2, 3, -3, 4, -4):
        if _shifted(found, expected, at, shift):
            where = f"from position {facts.find.position} on the cache holds the rows of"
            says = (
                f"{where} {shift} positions later: rows are missing"
                if shift > 0
                else f"{where} {-shift} positions earlier: rows are there twice or too many"
            )
            return Ruling(Cause.KV_LENGTH, True, says)
    return _of_other_positions(facts) or Ruling(
        Cause.KV_LENGTH, False, "no run of rows is shifted"
    )


def _of_other_positions(facts: OriginFacts) -> Ruling | None:
    """Rows that belong, all by the same number of positions, elsewhere in the same text."""
    positions = facts.find.positions[:_ROWS].tolist()
    if len(positions) < 2 and depends_on_few_tokens(facts):
        return None
    shifts: set[int] | None = None
    for at in positions:
        here = {
            other.position - at
            for other in facts.elsewhere(at)
            if other.position != at and on_the_same_text(facts, other)
        }
        shifts = here if shifts is None else shifts & here
    if not shifts:
        return None
    shift = min(shifts, key=abs)
    way = "later" if shift > 0 else "earlier"
    last = positions[-1]
    return Ruling(
        Cause.KV_LENGTH,
        True,
        f"the rows found at positions {positions[0]} to {last} are those of {abs(shift)} "
        f"positions {way}: the cache does not hold the rows that it should have kept",
    )


def _shifted(found: np.ndarray, expected: np.ndarray, at: int, shift: int) -> bool:
    """Whether most rows from *at* on are those that belong *shift* positions later."""
    low = at + shift
    count = min(len(found) - at, len(expected) - low)
    if low < 0 or count < 2:
        return False
    run = found[at : at + count] == expected[low : low + count]
    length = int(np.argmin(np.append(run, False)))
    distinct = len(np.unique(found[at : at + length])) > 1
    return distinct and length * 2 > count
