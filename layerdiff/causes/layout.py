"""The right elements of a cached value, read in another order."""

import numpy as np
from numpy.typing import NDArray

from layerdiff.causes.cached import found_in_cache, what
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.format.reader import Dump
from layerdiff.segments import Cells, Segments, expand
from layerdiff.vocabulary import Cause, Moment


def layout(facts: OriginFacts) -> Ruling | None:
    """layout: digests that do not depend on the order of elements agree, the others do not."""
    if not found_in_cache(facts):
        return None
    cell, dump = facts.cell(1), facts.lines[1].dump
    if not len(cell):
        return None
    own = elements(dump, int(cell.observation[0]))
    known = _reference(facts, cell)
    if own is None or known is None:
        return None
    keyed = bool(dump.header.get("keyed"))
    if not _same_elements(own, known[0], keyed=keyed):
        words = "its elements are not the same ones in another order"
        return Ruling(Cause.LAYOUT, False, words)
    if _rows_moved(facts, cell):
        return Ruling(Cause.LAYOUT, False, "whole rows are in another order, not their elements")
    shapes = [_shape(dump, cell), known[1]]
    shape = f", as {shapes[0]} where {shapes[1]} belongs" if shapes[0] != shapes[1] else ""
    return Ruling(
        Cause.LAYOUT,
        True,
        f"the {what(facts)} holds the right elements in another order{shape}",
    )


def elements(dump: Dump, observation: int) -> NDArray[np.uint64] | None:
    """Element digests [parts] of an observation, each over all its rows; None if not taken."""
    rows = dump.elements[dump.elements["observation"] == observation]
    if not len(rows):
        return None
    found: NDArray[np.uint64] = rows["digest"][np.argsort(rows["part"], kind="stable")]
    return found


def _shape(dump: Dump, cell: Cells) -> tuple[int, ...]:
    shape = dump.shape(int(dump.observations["shape"][cell.observation[0]]))
    return (int(cell.parts[0]), *shape)


def _reference(
    facts: OriginFacts, cell: Cells
) -> tuple[NDArray[np.uint64], tuple[int, ...]] | None:
    """Elements and shape of what should have been read: as the arm left it, else the baseline."""
    site, at = facts.site, facts.find.position
    if site.kind.is_kv:
        return _computed(facts, cell)
    for side in (1, 0):
        place = site if side else facts.twin
        if place is None:
            continue
        line = facts.lines[side]
        left = expand(line.states(place.index, Moment.OUT).clip(at, at + 1))
        left = left if len(left) or side else facts.cell(0)
        if len(left):
            last = left.take(slice(len(left) - 1, len(left)))
            found = elements(line.dump, int(last.observation[0]))
            if found is not None:
                return found, _shape(line.dump, last)
    return None


def _computed(
    facts: OriginFacts, cell: Cells
) -> tuple[NDArray[np.uint64], tuple[int, ...]] | None:
    """The sum over the passes that computed just the rows of the look, where they fit together."""
    line = facts.trace.candidate
    if line.dump.header.get("keyed"):
        return None
    rows = line.dump.rowset(int(line.dump.observations["rowset"][cell.observation[0]]))
    runs = line.rows(facts.site.index, Moment.COMPUTED)
    order = np.argsort(runs.start, kind="stable")
    at = int(rows["start"][0]) if len(rows) == 1 else -1
    total: NDArray[np.uint64] | None = None
    last = None
    for run in order.tolist():
        if at < 0 or int(runs.start[run]) != at or at == int(rows["stop"][0]):
            continue
        found = _whole(line.dump, runs, run)
        if found is None or (total is not None and len(total) != len(found)):
            return None
        total = found if total is None else total + found
        at, last = int(runs.stop[run]), run
    if total is None or last is None or at != int(rows["stop"][0]):
        return None
    return total, _shape(line.dump, expand(runs.take(slice(last, last + 1))))


def _whole(dump: Dump, runs: Segments, run: int) -> NDArray[np.uint64] | None:
    """Element digests of an observation that holds just one run of rows."""
    observation = int(runs.observation[run])
    whole = int(dump.observations["rows"][observation]) == int(runs.stop[run] - runs.start[run])
    return elements(dump, observation) if whole else None


def _same_elements(own: NDArray[np.uint64], known: NDArray[np.uint64], *, keyed: bool) -> bool:
    """Whether two values hold the same elements, within their parts or over all of them."""
    if len(own) == len(known) and bool((np.sort(own) == np.sort(known)).all()):
        return True
    return not keyed and int(own.sum(dtype=np.uint64)) == int(known.sum(dtype=np.uint64))


def _rows_moved(facts: OriginFacts, cell: Cells) -> bool:
    """Whether the look holds rows that were computed, each as a whole, of whatever version."""
    if facts.site.kind.is_state:
        return False
    line, store = facts.trace.candidate, facts.stores[1]
    observation = int(cell.observation[0])
    span = line.dump.rowset(int(line.dump.observations["rowset"][observation]))[0]
    low, high = int(span["start"]), int(span["stop"])
    computed = expand(line.rows(facts.site.index, Moment.COMPUTED).clip(low, high))
    first = int(line.dump.observations["first_digest"][observation])
    found = line.dump.digests(first, high - low)
    return bool(np.isin(found, store.digests(computed.first, 1)[:, 0]).all())
