"""The first cell that differs, found in raw bytes: layerdiff has no part in it.

Cells of a request are ordered by layer (what lies before the first layer, the layers, the head,
the drafter), then by position, then by when they were told.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from layerdiff.vocabulary import Moment, Role
from tests.batteries.watching import Seen, Watching

_READ = (Moment.IN, Moment.RESTORED)

Key: TypeAlias = tuple[str, int, int]
"""(site, position, hash of the tokens that it depends on)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Where two runs part."""

    layer_index: int | None
    role: str
    site: str
    tensor: str
    position: int
    read: bool
    """Whether it was read from a cache, rather than computed or left."""

    def __str__(self) -> str:
        moment = "read" if self.read else "made"
        where = "-" if self.layer_index is None else self.layer_index
        return f"layer {where} {self.site} {self.tensor} at {self.position}, {moment}"


def first_difference(
    baseline: Watching, candidate: Watching, *, inside: bool = False
) -> Cell | None:
    """The first cell of any request of both runs whose bytes differ.

    Args:
        inside: Reads of the candidate that are not what it wrote there either come first.
    """
    names = [name for name in candidate.told if name in baseline.told]
    found = [seen for name in names for seen in _differing(baseline, candidate, name)]
    if inside:
        own = {seen.order for name in names for seen in _differing(candidate, candidate, name)}
        found = [seen for seen in found if seen.order in own] or found
    if not found:
        return None
    depths = _depths(candidate)
    first = min(found, key=lambda seen: (depths[seen.site], seen.position, seen.order))
    return Cell(
        first.layer_index,
        first.role.word,
        first.site,
        first.kind.word,
        first.position,
        first.moment in _READ,
    )


def _depths(watching: Watching) -> dict[str, int]:
    """How deep in the model each site is.

    Of the sites outside any layer, those that were told before the first layer lie before it.
    """
    layers = 1 + max((seen.layer_index or 0 for seen in watching.seen), default=0)
    found: dict[str, int] = {}
    begun = False
    for seen in watching.seen:
        begun = begun or (seen.layer_index is not None and seen.start >= 0)
        if seen.site not in found:
            outside = layers if begun else -1
            found[seen.site] = outside if seen.layer_index is None else seen.layer_index
        if seen.role is Role.DRAFTER:
            found[seen.site] = layers + 1
    return found


def _differing(baseline: Watching, candidate: Watching, name: str) -> list[Seen]:
    """Cells of a request, and of what it stands on, that are not what they should be.

    A value that was computed should be the baseline's; one that was read should be what the
    baseline computed there, or, where the baseline has no such cell, what the candidate did.
    Where neither has, a state that was left in one other place, and only there, is wrong. Behind
    a token that flipped the texts are not the same, and nothing is compared.
    """
    theirs, ours = _made(baseline, name), _made(candidate, name)
    text = set(baseline.told[name].chain)
    left: dict[tuple[str, bytes], set[tuple[int, int]]] = defaultdict(set)
    for seen in candidate.seen:
        if seen.kind.is_state and seen.moment is Moment.OUT:
            left[seen.site, seen.value].add((seen.position, seen.prefix))
    found = []
    for seen in _line(candidate, name):
        if seen.prefix not in text:
            continue
        key = (seen.site, seen.position, seen.prefix)
        right = theirs.get(key)
        if right is None and not _is_made(seen):
            right = ours.get(key)
        if right is not None:
            wrong = seen.value not in right
        else:
            places = left.get((seen.site, seen.value), set())
            place = (seen.position, seen.prefix)
            wrong = seen.moment in _READ and len(places) == 1 and place not in places
        if wrong:
            found.append(seen)
    return found


def _made(watching: Watching, name: str) -> dict[Key, set[bytes]]:
    """What the passes of a request, and of those that it stands on, computed."""
    found: dict[Key, set[bytes]] = defaultdict(set)
    for seen in _line(watching, name):
        if _is_made(seen):
            found[seen.site, seen.position, seen.prefix].add(seen.value)
    return dict(found)


def _is_made(seen: Seen) -> bool:
    return seen.moment is (Moment.OUT if seen.kind.is_state else Moment.COMPUTED)


def _line(watching: Watching, name: str) -> Iterator[Seen]:
    """Cells of a request, and those of others below its hit that it goes on from."""
    parts = _parts(watching, name, 0, None)
    for seen in watching.seen:
        if any(_inside(seen, start, stop) for start, stop in parts.get(seen.request, ())):
            yield seen


def _inside(seen: Seen, start: int, stop: int | None) -> bool:
    """Whether a cell belongs to the passes that computed positions [start, stop) of a request.

    What was read belongs to the pass that read it, wherever it was written.
    """
    if seen.start < 0:
        return stop is None
    place = seen.start if seen.moment in _READ else seen.position - seen.kind.is_state
    return start <= place and (stop is None or place < stop)


def _parts(
    watching: Watching, name: str, start: int, stop: int | None
) -> dict[str, list[tuple[int, int | None]]]:
    """By request, the stretches of its positions that one request's prefix is made of.

    The state says whose prefix it is; rows alone are those of whoever wrote them.
    """
    found: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    told = watching.told[name]
    hit = told.hit if stop is None else min(told.hit, stop)
    if stop is None or stop > hit:
        found[name].append((hit, stop))
    if hit <= start:
        return found
    if told.state_source is not None:
        sources = [(0, told.state_source[0], told.state_source[1])]
    else:
        sources = told.row_sources
    for first, last, source in sources:
        if min(last, hit) > max(first, start) and source != name:
            below = _parts(watching, source, max(first, start), min(last, hit))
            for request, stretches in below.items():
                found[request] += stretches
    return found
