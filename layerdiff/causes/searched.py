"""Whose value this is: by its bits, and behind a cast by how near it lies."""

from dataclasses import replace

import numpy as np

from layerdiff.causes.cached import depends_on_few_tokens, on_the_same_text
from layerdiff.causes.casts import coarseness, most_of_a_cast, told_coarseness
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.written import Seen

_NEARER = 4.0
"""How much nearer than the right value another one must be, to be what was cast."""


def elsewhere(facts: OriginFacts) -> list[Seen]:
    """Where else either dump shows the origin's value; a state also as a cast has left it."""
    exact = facts.elsewhere()
    return exact if exact or not facts.site.kind.is_state else _behind_a_cast(facts)


def _behind_a_cast(facts: OriginFacts) -> list[Seen]:
    """Recorded values in another dtype that are as near as a cast leaves them, nearest first."""
    cell = facts.cell(1)
    if not len(cell):
        return []
    own = facts.lines[1].dump.dtype_name(int(cell.observation[0]))
    wanted = facts.stores[1].sketches(cell.first, int(cell.parts[0]))
    if wanted is None or not np.isfinite(facts.find.relative):
        return []
    told = told_coarseness(facts)
    found = []
    for side in (0, 1):
        for written in facts.written.of(facts, side):
            far = written.distances(wanted[0])
            for row in np.flatnonzero(far * _NEARER < facts.find.relative).tolist():
                dump = written.store.dump
                other = dump.dtype_name(int(written.cells.observation[row]))
                eps = max(told, coarseness(own, other))
                if eps and far[row] <= most_of_a_cast(eps) < facts.find.relative:
                    found.append(written.seen(row, apart=float(far[row])))
    return sorted(facts.places(found, facts.find.position), key=lambda seen: seen.apart)


def with_others(facts: OriginFacts, other: Seen) -> bool | None:
    """Whether what else was read there, and sums up the whole prefix, is of the same place.

    None where nothing else that was read there is wrong.
    """
    found = None
    for near in _beside(facts):
        places = [(seen.side, seen.request, seen.position) for seen in elsewhere(near)]
        if (other.side, other.request, other.position) not in places:
            return False
        found = True
    return found


def same_text_beside(facts: OriginFacts, position: int) -> bool | None:
    """Whether what else was read there is this text's state at a position as well.

    None where nothing else that was read there is wrong.
    """
    found = None
    for near in _beside(facts):
        if not any(
            seen.position == position and on_the_same_text(near, seen) for seen in elsewhere(near)
        ):
            return False
        found = True
    return found


def _beside(facts: OriginFacts) -> list[OriginFacts]:
    """Other states that differ at the same moment and position, and say whose they are."""
    at, found = facts.find.position, []
    for (_, moment), column in facts.trace.columns.items():
        if moment is not facts.find.moment or not column.site.kind.is_state:
            continue
        if at >= len(column.diff.state) or column.diff.state[at] != State.DIFFERS:
            continue
        find = replace(facts.find, site=column.site, relative=float(column.diff.relative[at]))
        near = replace(facts, find=find, recognised={})
        if not depends_on_few_tokens(near):
            found.append(near)
    return found
