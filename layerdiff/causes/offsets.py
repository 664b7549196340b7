"""How many rows a cache says that it holds, beside where the pass that uses it begins."""

from dataclasses import dataclass

from layerdiff.books import told
from layerdiff.causes.cached import chunk_of
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.lineage import Line
from layerdiff.passes import Chunk
from layerdiff.vocabulary import EventKind, Reach


@dataclass(frozen=True, slots=True)
class Offset:
    """What one layer's cache said before a pass."""

    chunk: Chunk
    held: int
    """Rows."""
    expected: int
    """Rows of a healthy cache there."""


def wrong_offset(facts: OriginFacts) -> Offset | None:
    """A count that does not go with the origin's pass, of a cache that the origin reads."""
    chunk, line = chunk_of(facts, 1), facts.trace.candidate
    if chunk is None or facts.site.kind.is_state:
        return None
    for event in told(line.dump, EventKind.OFFSET, request=chunk.request):
        if event.pass_index != chunk.pass_index or event.value is None or event.site is None:
            continue
        site = line.dump.sites[event.site]
        if _is_read(facts, site):
            expected = _expected(facts.trace.baseline, site, chunk.start, event.value)
            if event.value != expected:
                return Offset(chunk, event.value, expected)
    return None


def _is_read(facts: OriginFacts, site: Site) -> bool:
    here = facts.site
    same_layer = (site.role, site.layer_index) == (here.role, here.layer_index)
    reads = here.kind.is_kv or here.reach is Reach.PREFIX
    return site.index in (here.index, *here.inputs) or (
        same_layer and site.layer_index is not None and reads
    )


def _expected(baseline: Line, site: Site, start: int, held: int) -> int:
    """Rows before *start*: all of them, or what a ring keeps as the baseline shows it.

    Args:
        held: What the candidate says; stands where nothing tells whether the cache is a ring.
    """
    dump = baseline.dump
    known: dict[int, int] = {}
    for part in baseline.parts:
        for event in told(dump, EventKind.OFFSET, request=part.request):
            twin = None if event.site is None else dump.sites[event.site]
            same = twin is not None and (twin.name, twin.role) == (site.name, site.role)
            if same and event.start is not None and event.value is not None:
                known[event.start] = event.value
    if start in known:
        return known[start]
    if any(value < at for at, value in known.items()):
        return min(start, max(known.values()))
    return held if held < start and not known else start


def length_told(facts: OriginFacts) -> str | None:
    """What shows that a cache holds more or fewer rows than tokens were seen."""
    found = wrong_offset(facts)
    if found is None:
        return None
    extra = found.held - found.expected
    what = f"{extra} are there twice" if extra > 0 else f"{-extra} are missing"
    return (
        f"this layer's cache says that it holds {found.held} rows before {found.chunk}, where "
        f"{found.expected} belong: {what}"
    )
