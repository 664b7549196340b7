"""How many rows a cache says that it holds, beside where the pass that uses it begins."""

from dataclasses import dataclass

from layerdiff.books import told
from layerdiff.causes.cached import chunk_of
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.lineage import Line
from layerdiff.passes import Chunk, chunks
from layerdiff.vocabulary import EventKind, Reach


@dataclass(frozen=True, slots=True)
class Offset:
    """What one layer's cache said before a pass."""

    chunk: Chunk
    held: int
    """Rows."""
    expected: int
    """Rows of a healthy cache there."""

    @property
    def wrong(self) -> bool:
        """Whether rows are missing, or too many."""
        return self.held != self.expected


def offsets(facts: OriginFacts) -> list[Offset]:
    """What the caches that an origin reads said before its pass and those before it, in order."""
    last, line = chunk_of(facts, 1), facts.trace.candidate
    if last is None or facts.site.kind.is_state:
        return []
    found = []
    ran = {chunk.pass_index: chunk for chunk in chunks(line.dump, last.request)}
    until = last.pass_index
    for event in told(line.dump, EventKind.OFFSET, request=last.request, until_pass=until):
        chunk = ran.get(event.pass_index)
        if event.value is None or event.site is None or chunk is None:
            continue
        site = line.dump.sites[event.site]
        if _is_read(facts, site):
            expected = _expected(facts.trace.baseline, site, chunk.start, event.value)
            found.append(Offset(chunk, event.value, expected))
    return found


def wrong_offset(facts: OriginFacts) -> Offset | None:
    """A count that does not go with the origin's pass, of a cache that the origin reads.

    Of several passes that it stayed wrong in, the first one's.
    """
    told_before, here = _split(offsets(facts))
    if not any(offset.wrong for offset in here):
        return None
    return next(offset for offset in (*told_before, *here) if offset.wrong)


def _is_read(facts: OriginFacts, site: Site) -> bool:
    here = facts.site
    same_layer = (site.role, site.layer_index) == (here.role, here.layer_index)
    reads = here.kind.is_kv or here.reach is Reach.PREFIX
    return site.index in (here.index, *here.inputs) or (
        same_layer and site.layer_index is not None and reads
    )


def _expected(baseline: Line, site: Site, start: int, held: int) -> int:
    """Rows before *start*: all of them, or what a ring keeps, as the baseline shows it.

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
    # Rows that stand before the first token in every arm, such as attention sinks.
    sinks = max(0, known[min(known)] - min(known)) if known else 0
    if any(value < at for at, value in known.items()):
        return min(start + sinks, max(known.values()))
    return held if held < start and not known else start + sinks


def _split(found: list[Offset]) -> tuple[list[Offset], list[Offset]]:
    """Those of earlier passes, and those of the last one."""
    last = found[-1].chunk.pass_index if found else None
    here = [offset for offset in found if offset.chunk.pass_index == last]
    return found[: len(found) - len(here)], here


def length_confirmed(facts: OriginFacts) -> str | None:
    """What shows that the caches which the origin reads held a row for each token before it."""
    made = facts.pass_of(1)
    _, here = _split(offsets(facts))
    if not here or here[0].chunk.pass_index != made or any(offset.wrong for offset in here):
        return None
    return (
        f"this layer's cache says that it holds {here[0].held} rows before {here[0].chunk}, as "
        "it should"
    )


def length_told(facts: OriginFacts) -> str | None:
    """What shows that a cache holds more or fewer rows than tokens were seen."""
    found = wrong_offset(facts)
    if found is None:
        return None
    extra = found.held - found.expected
    verb = "is" if abs(extra) == 1 else "are"
    what = f"{extra} {verb} there twice" if extra > 0 else f"{-extra} {verb} missing"
    return (
        f"this layer's cache says that it holds {found.held} rows before {found.chunk}, where "
        f"{found.expected} belong: {what}"
    )
