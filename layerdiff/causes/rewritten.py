"""Causes that the books of a paged cache decide: a block written again, or the wrong one read."""

from collections.abc import Mapping

from layerdiff.blocks import block_read, misread, rewrite
from layerdiff.books import told
from layerdiff.causes.cached import chunk_of, found_in_cache, reader
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Event, Kernel
from layerdiff.passes import chunk_in
from layerdiff.vocabulary import Cause, EventKind, Reach


def wrong_block(facts: OriginFacts) -> str | None:
    """What shows that the row was read from a block that does not hold it."""
    made = facts.pass_of(1)
    if not facts.site.kind.is_kv or made is None:
        return None
    dump, at = facts.trace.candidate.dump, facts.find.position
    found = block_read(dump, reader(facts), at, made)
    says = misread(found) if found else None
    # A copy of the same row in another block is what a cache that keeps the older copy reads.
    copies = [s for s in facts.elsewhere() if s.position == at and s.chain == facts.prefix(at)]
    return None if copies else says


def handed_on(facts: OriginFacts) -> str | None:
    """What shows that the row's block was written again after the row was published."""
    made = facts.pass_of(1)
    if not facts.site.kind.is_kv or made is None:
        return None
    dump, at = facts.trace.candidate.dump, facts.find.position
    found = block_read(dump, reader(facts), at, made)
    event = rewrite(dump, found, at) if found else None
    if found is None or event is None:
        return None
    made_by = [(s.request, s.pass_index) for s in facts.elsewhere() if s.side == "candidate"]
    wrote = event.kind is EventKind.KV_WRITE
    if wrote and made_by and (event.request, event.pass_index) not in made_by:
        return None
    where = f"generation {found.written.generation} of block {found.place}"
    return f"position {at} was left in {where}; then {_who(facts, event)}"


def _who(facts: OriginFacts, event: Event) -> str:
    dump = facts.trace.candidate.dump
    if event.request is None:
        return f"the block was handed out again, generation {event.generation}"
    name = dump.requests[event.request].name
    if event.kind is EventKind.ALLOC:
        return f"the block was handed to request {name!r}, generation {event.generation}"
    chunk = chunk_in(dump, event.request, event.pass_index)
    by = str(chunk) if chunk else f"request {name!r}"
    return f"positions [{event.start}, {event.stop}) of {by} were written into it"


def kv_overwritten(facts: OriginFacts) -> Ruling | None:
    """kv-overwritten: the row's block was written again between its writing and its reading."""
    if not found_in_cache(facts) or not facts.site.kind.is_kv:
        return None
    says = handed_on(facts)
    if says:
        return Ruling(Cause.KV_OVERWRITTEN, True, says)
    made = facts.pass_of(1)
    dump, at = facts.trace.candidate.dump, facts.find.position
    known = made is not None and block_read(dump, reader(facts), at, made)
    if not known:
        return None
    words = "nothing that was told wrote its block between its writing and its reading"
    return Ruling(Cause.KV_OVERWRITTEN, False, words)


def kv_read_path(facts: OriginFacts) -> Ruling | None:
    """kv-read-path: the rows are right where they lie; block table, length or stride is not."""
    if found_in_cache(facts):
        says = wrong_block(facts)
    elif facts.site.reach is Reach.PREFIX and facts.find.bits:
        says = _told_otherwise(facts)
    else:
        return None
    if says:
        return Ruling(Cause.KV_READ_PATH, True, says)
    return None


def _told_otherwise(facts: OriginFacts) -> str | None:
    """What the candidate's kernel was told of its cache, and the pass does not bear out."""
    baseline, candidate = facts.kernel(0), facts.kernel(1)
    if candidate is None:
        return None
    known = baseline.facts if baseline else {}
    return (
        _length(facts, known, candidate.facts)
        or _table(facts, candidate.facts)
        or _stride(baseline, candidate)
    )


def _length(
    facts: OriginFacts, baseline: Mapping[str, object], candidate: Mapping[str, object]
) -> str | None:
    ours, theirs = chunk_of(facts, 1), chunk_of(facts, 0)
    given, healthy = candidate.get("kv_len"), baseline.get("kv_len")
    if ours is None or theirs is None or not isinstance(given, int):
        return None
    if not isinstance(healthy, int):
        return None
    if (ours.stop == theirs.stop and given != healthy) or (
        healthy == theirs.stop and given != ours.stop
    ):
        return (
            f"the kernel was told of {given} rows in a pass up to position {ours.stop}; the "
            f"baseline's of {healthy} in one up to {theirs.stop}"
        )
    return None


def _table(facts: OriginFacts, candidate: Mapping[str, object]) -> str | None:
    """A block that holds rows of the request, and that the kernel's table lacks."""
    chunk = chunk_of(facts, 1)
    if chunk is None:
        return None
    dump, table = facts.trace.candidate.dump, candidate.get("block_table")
    for read in told(dump, EventKind.KV_READ, request=chunk.request, until_pass=chunk.pass_index):
        if read.pass_index != chunk.pass_index or read.start is None:
            continue
        found = block_read(dump, chunk.request, read.start, chunk.pass_index)
        says = misread(found) if found else None
        if says:
            return f"row {read.start}: {says}"
        if isinstance(table, list) and found and found.place not in table:
            return f"the kernel's block table lacks block {found.place}, with row {read.start}"
    return None


def _stride(baseline: Kernel | None, candidate: Kernel) -> str | None:
    if baseline is None or baseline.name != candidate.name:
        return None
    healthy, given = baseline.facts.get("stride"), candidate.facts.get("stride")
    if healthy is None or given is None or healthy == given:
        return None
    return f"the kernel was given stride {given}, the baseline's {healthy}"
