"""What was seen of the values that an origin is computed from, and how far it stands out."""

import numpy as np

from layerdiff import sketch
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.precision import EPS, site_eps
from layerdiff.segments import expand
from layerdiff.vocabulary import Moment

_BEYOND = 25.0
"""Rounding of float32 stays below this many of its epsilons, however a kernel adds up."""
_BEYOND_NARROW = 2.0
"""Kernels add up in float32: a narrower result is rounded once, whatever the order."""


def site_of(facts: OriginFacts, index: int) -> Site:
    """A site of the candidate."""
    return facts.lines[1].dump.sites[index]


def state_at(facts: OriginFacts, site: Site, position: int) -> State:
    """What the comparison says of a computed row."""
    column = facts.trace.columns.get((site.index, Moment.COMPUTED))
    if column is None or not 0 <= position < len(column.diff.state):
        return State.ABSENT
    return State(int(column.diff.state[position]))


def row_of(facts: OriginFacts) -> int:
    """Position of the origin's last token: a state sums up to the one before its own."""
    return facts.find.position - (1 if facts.site.kind.is_state else 0)


def comes_in(facts: OriginFacts) -> str | None:
    """In words: what enters the computation of a value agrees, or nearly; None where it may not.

    Only values that a kernel made count, not those found in a cache.
    """
    find, site = facts.find, facts.site
    made = Moment.OUT if site.kind.is_state else Moment.COMPUTED
    if find.breach or find.moment is not made:
        return None
    if find.bits:
        seen = [other for index in site.inputs if _agreed(facts, other := site_of(facts, index))]
        return "every input that was compared agrees" if seen else None
    if find.jump:
        return f"its inputs differ by {find.incoming:.1e} at most, and it by {find.relative:.1e}"
    return None


def _agreed(facts: OriginFacts, site: Site) -> bool:
    """Whether an input was compared, and agrees, where the origin's row reads it."""
    at = row_of(facts)
    if not site.kind.is_state:
        return state_at(facts, site, at) is State.AGREES
    columns = (facts.trace.columns.get((site.index, m)) for m in (Moment.IN, Moment.OUT))
    return any(
        column is not None and bool((column.diff.state[: at + 1] == State.AGREES).any())
        for column in columns
    )


def beyond_rounding(facts: OriginFacts) -> bool | None:
    """Whether the difference is larger than another order of summation makes; None if unknown."""
    relative = facts.find.relative
    if np.isnan(relative):
        return None
    eps = site_eps(facts.lines[1].dump, facts.site)
    summed = min(eps, EPS["float32"])
    return relative > max(_BEYOND * summed, _BEYOND_NARROW * eps)


def norms(facts: OriginFacts, site: Site, position: int) -> tuple[float, float] | None:
    """Euclidean norms of a computed row in baseline and candidate; None without sketches."""
    found = []
    for side in (0, 1):
        line, own = facts.lines[side], site if side else _twin(facts, site)
        if own is None:
            return None
        cells = expand(line.rows(own.index, Moment.COMPUTED).clip(position, position + 1))
        if not len(cells):
            return None
        last = cells.take(slice(len(cells) - 1, len(cells)))
        sketches = facts.stores[side].sketches(last.first, int(last.parts[0]))
        if sketches is None:
            return None
        found.append(float(np.sqrt((np.float64(sketches[..., 0]) ** 2).sum())))
    return found[0], found[1]


def distance_of(facts: OriginFacts, site: Site, position: int) -> float | None:
    """Estimated Euclidean distance between both sides of a computed row; None if unknown."""
    column = facts.trace.columns.get((site.index, Moment.COMPUTED))
    sizes = norms(facts, site, position)
    if column is None or sizes is None or state_at(facts, site, position) < State.AGREES:
        return None
    relative = float(column.diff.relative[position])
    if 0 < relative < sketch.FLOOR:
        relative = sketch.FLOOR
    return None if np.isnan(relative) else relative * sizes[0]


def _twin(facts: OriginFacts, site: Site) -> Site | None:
    for other in facts.lines[0].dump.sites:
        if (other.name, other.role) == (site.name, site.role):
            return other
    return None
