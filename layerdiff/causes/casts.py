"""Values that were cast or quantised on their way through a cache."""

from layerdiff.books import covers, told
from layerdiff.causes.cached import found_in_cache, what
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Event, Site
from layerdiff.lineage import Line
from layerdiff.passes import chunks
from layerdiff.precision import EPS
from layerdiff.segments import expand
from layerdiff.sketch import FLOOR
from layerdiff.vocabulary import Cause, EventKind, Moment


def dtype_requant(facts: OriginFacts) -> Ruling | None:
    """dtype-requant: the same value, cast or quantised another number of times."""
    if not found_in_cache(facts):
        return None
    names = [_dtype(facts, 0) or _left(facts), _dtype(facts, 1)]
    if all(names) and names[0] != names[1]:
        whose = "and is" if _dtype(facts, 0) else "was left as"
        where = " in the baseline" if _dtype(facts, 0) else ""
        says = f"it was read as {names[1]}, {whose} {names[0]}{where}"
        coarse = coarseness(names[0] or "", names[1] or "")
        return _too_far(facts, coarse) or Ruling(Cause.DTYPE_REQUANT, True, says)
    casts = [_casts(facts, side) for side in (0, 1)]
    counts = [sum(1 if e.value is None else e.value for e in events) for events in casts]
    if not any(counts):
        return None
    if counts[0] == counts[1]:
        words = f"it was cast as often as the baseline's, {counts[0]} times"
        return Ruling(Cause.DTYPE_REQUANT, False, words)
    excluded = _too_far(facts, told_coarseness(facts))
    if excluded:
        return excluded
    text = max((event.text for event in (*casts[1], *casts[0])), key=len)
    return Ruling(
        Cause.DTYPE_REQUANT,
        True,
        f"the {what(facts)} was cast {counts[1]} times on its way ({text}), the baseline's "
        f"{counts[0]} times",
    )


def _too_far(facts: OriginFacts, eps: float) -> Ruling | None:
    """What shows that a cast cannot have made the difference, where its dtype is known."""
    far = facts.find.relative
    if eps and far > most_of_a_cast(eps):
        words = f"it differs by {far:.1e}, more than a cast can do"
        return Ruling(Cause.DTYPE_REQUANT, False, words)
    return None


def most_of_a_cast(eps: float) -> float:
    """The largest relative difference, as sketches tell it, that a cast makes."""
    return 2 * eps + FLOOR


def coarseness(one: str, other: str) -> float:
    """Machine epsilon of the coarser of two dtypes; 0 if they are the same or one is no float."""
    if one == other or one not in EPS or other not in EPS:
        return 0.0
    return max(EPS[one], EPS[other])


def told_coarseness(facts: OriginFacts) -> float:
    """Machine epsilon of the narrowest dtype that the value is told to have been cast to."""
    casts = [event for side in (0, 1) for event in _casts(facts, side)]
    return max((_eps(event) for event in casts), default=0.0)


def _dtype(facts: OriginFacts, side: int) -> str | None:
    """The dtype in which an arm's cell was seen, at the moment of the origin."""
    cell, dump = facts.cell(side), facts.lines[side].dump
    if not len(cell):
        return None
    index = int(cell.observation[0])
    # A cache may be narrower than what it is filled with: only like moments are compared.
    if side == 0 and int(dump.observations["moment"][index]) != facts.find.moment:
        return None
    return dump.dtype_name(index) or None


def _left(facts: OriginFacts) -> str | None:
    """The dtype in which a pass of the candidate left the state that was read."""
    if not facts.site.kind.is_state:
        return None
    line, at = facts.lines[1], facts.find.position
    left = expand(line.states(facts.site.index, Moment.OUT).clip(at, at + 1))
    return line.dump.dtype_name(int(left.observation[-1])) if len(left) else None


def _casts(facts: OriginFacts, side: int) -> list[Event]:
    """Casts of the value since it was last computed, up to the last pass that can have read it."""
    line, site, at = facts.lines[side], facts.site if side else facts.twin, facts.find.position
    ran = chunks(line.dump, line.request)
    if site is None or not ran:
        return []
    rows = (at - 1, at) if site.kind.is_state else (at,)
    until = facts.pass_of(1) if side else ran[-1].pass_index
    first = _made_in(line, site, at)
    return [
        event
        for part in line.parts
        for event in told(line.dump, EventKind.CAST, request=part.request, until_pass=until)
        if event.site == site.index
        and event.pass_index >= first
        and any(covers(event, row) for row in rows)
    ]


def _made_in(line: Line, site: Site, position: int) -> int:
    """The pass that last computed a row; 0 for a state, or where that is not known."""
    rows = expand(line.rows(site.index, Moment.COMPUTED).clip(position, position + 1))
    if not len(rows):
        return 0
    return int(line.dump.observations["pass_index"][rows.observation[-1]])


def _eps(event: Event) -> float:
    """Machine epsilon of the narrower dtype that an event names; 0 for one that is not known."""
    return max((EPS.get(name.strip(), 0.0) for name in event.text.split("->")), default=0.0)
