"""One prefix in a cache, put together from what several passes wrote."""

from layerdiff.causes.cached import found_in_cache, is_rejected, owner, reader, what
from layerdiff.causes.rewritten import handed_on
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.passes import Chunk, chunk_in, chunks
from layerdiff.slots import foreign_slot
from layerdiff.vocabulary import Cause
from layerdiff.written import Seen


def kv_mixed_origin(facts: OriginFacts) -> Ruling | None:
    """kv-mixed-origin: a row of another pass than the rest of its prefix, with other bits.

    The pass that the prefix's states come from, or a replay, computed this row too; what was read
    is the same row as another request or pass had computed it.
    """
    if not found_in_cache(facts) or not facts.find.breach:
        return None
    own = _own_writer(facts)
    if own is None:
        return None
    others = [(seen, chunk) for seen in facts.elsewhere() if (chunk := _twin(facts, seen, own))]
    if not others:
        words = "no other pass of this arm wrote these bits under the same prefix"
        return Ruling(Cause.KV_MIXED_ORIGIN, False, words)
    excluded = handed_on(facts) or _slot(facts)
    if excluded:
        return Ruling(Cause.KV_MIXED_ORIGIN, False, excluded)
    if facts.site.kind.is_state and not _has_rows(facts):
        return Ruling(Cause.KV_MIXED_ORIGIN, False, "no other part of the prefix was recorded")
    return Ruling(Cause.KV_MIXED_ORIGIN, True, _says(facts, own, others[0][1]))


def _own_writer(facts: OriginFacts) -> Chunk | None:
    """The pass of the origin's own line that made the value."""
    if facts.site.kind.is_kv:
        return owner(facts)
    line, at = facts.trace.candidate, facts.find.position
    part = next((part for part in line.parts if part.start < at <= part.stop), None)
    if part is None:
        return None
    ended = [chunk for chunk in chunks(line.dump, part.request) if chunk.stop == at]
    return ended[-1] if ended else None


def _twin(facts: OriginFacts, seen: Seen, own: Chunk) -> Chunk | None:
    """The other pass that wrote the same position under the same prefix, if *seen* is of one."""
    at = facts.find.position
    prefix = facts.prefix(at)
    if seen.side != "candidate" or seen.position != at or prefix is None or seen.chain != prefix:
        return None
    if (seen.request, seen.pass_index) == (own.request, own.pass_index):
        return None
    if is_rejected(facts, seen):
        return None
    return chunk_in(facts.trace.candidate.dump, seen.request, seen.pass_index)


def _slot(facts: OriginFacts) -> str | None:
    made = facts.pass_of(1)
    if not facts.site.kind.is_state or made is None:
        return None
    return foreign_slot(facts.trace.candidate.dump, reader(facts), facts.find.position, made)


def _has_rows(facts: OriginFacts) -> bool:
    """Whether the line's prefix has rows of keys or values beside its states."""
    return any(site.kind.is_kv for site in facts.trace.candidate.dump.sites)


def _says(facts: OriginFacts, own: Chunk, other: Chunk) -> str:
    at = facts.find.position
    rest = (
        "state of this prefix is that"
        if facts.site.kind.is_kv
        else "rows of this prefix are those"
    )
    return (
        f"the {what(facts)} read at {at} was written by {other}; the {rest} of {own}, which "
        f"computed it with other bits"
    )
