"""Drafted tokens that were rejected, and what stayed of them."""

from layerdiff.causes.cached import found_in_cache, is_rejected, what
from layerdiff.causes.offsets import wrong_offset
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.passes import chunk_in
from layerdiff.rejected import rejections
from layerdiff.vocabulary import Cause


def rollback_missing(facts: OriginFacts) -> Ruling | None:
    """rollback-missing: what was read was made under drafted tokens that were then rejected."""
    kept = _rows_kept(facts)
    if kept:
        return Ruling(Cause.ROLLBACK_MISSING, True, kept)
    if not found_in_cache(facts):
        return None
    line, at = facts.trace.candidate, facts.find.position
    members = {part.request for part in line.parts}
    runs = [run for member in members for run in rejections(line.dump, member)]
    if not runs:
        return None
    seen = facts.elsewhere()
    if any(s.position == at and not is_rejected(facts, s) for s in seen):
        words = "accepted tokens give the same value"
        return Ruling(Cause.ROLLBACK_MISSING, False, words)
    for other in seen:
        if other.side == "candidate" and other.request in members and is_rejected(facts, other):
            chunk = chunk_in(line.dump, other.request, other.pass_index)
            start = min(r.start for r in runs if r.chunk.pass_index == other.pass_index)
            return Ruling(
                Cause.ROLLBACK_MISSING,
                True,
                f"the {what(facts)} read at position {at} is what {chunk} made at position "
                f"{other.position}; its tokens from {start} on were rejected",
            )
    words = f"it equals nothing made under rejected tokens ({len(runs)} rejected runs)"
    return Ruling(Cause.ROLLBACK_MISSING, False, words)


def _rows_kept(facts: OriginFacts) -> str | None:
    """What shows that a cache went on with a rejected run still in it."""
    found = wrong_offset(facts)
    if found is None or found.held <= found.expected:
        return None
    for run in rejections(facts.trace.candidate.dump, found.chunk.request):
        kept = found.held - found.expected
        if run.start == found.chunk.start and run.chunk.stop == run.start + kept:
            return (
                f"this layer's cache says that it holds {found.held} rows before {found.chunk}: "
                f"those of {run.chunk} from {run.start} on were rejected, and are still there"
            )
    return None
