"""A state that a pass should have moved on, and did not."""

import numpy as np

from layerdiff.books import told
from layerdiff.causes.cached import reader, state_in, what
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.passes import Chunk, chunks
from layerdiff.vocabulary import Cause, EventKind, Moment


def state_not_written(facts: OriginFacts) -> Ruling | None:
    """state-not-written: a pass consumed tokens and left the state as it had read it."""
    site, position = facts.site, facts.find.position
    if not site.kind.is_state:
        return None
    if facts.find.moment is Moment.IN:
        says = left_as_read(facts)
        return Ruling(Cause.STATE_NOT_WRITTEN, True, says) if says else None
    if facts.find.breach or facts.find.moment is not Moment.OUT:
        return None
    made = facts.pass_of(1)
    found = [c for c in _ended_at(facts, position) if c.pass_index == made]
    if not found:
        return None
    same = _as_read(facts, found[-1])
    if same is None:
        return None
    if not same:
        words = "the pass left another state than it had read"
        return Ruling(Cause.STATE_NOT_WRITTEN, False, words)
    if _baseline_stays(facts, found[-1].start):
        words = "the baseline's state does not change there either"
        return Ruling(Cause.STATE_NOT_WRITTEN, False, words)
    return Ruling(Cause.STATE_NOT_WRITTEN, True, _says(facts, found[-1]))


def left_as_read(facts: OriginFacts) -> str | None:
    """What shows that the pass before the one that read the state had not written it back.

    Both passes are of one request: what a later request took over was restored, not left.
    """
    position, made = facts.find.position, facts.pass_of(1)
    dump = facts.trace.candidate.dump
    hit = dump.requests[reader(facts)].hit
    if facts.find.moment is not Moment.IN or made is None or position == hit:
        return None
    restored = told(dump, EventKind.STATE_READ, request=reader(facts), until_pass=made)
    if any((event.start, event.pass_index) == (position, made) for event in restored):
        return None
    before = [c for c in _ended_at(facts, position) if c.pass_index < made]
    if not before or not _as_read(facts, before[-1]) or _baseline_stays(facts, before[-1].start):
        return None
    return _says(facts, before[-1])


def _ended_at(facts: OriginFacts, position: int) -> list[Chunk]:
    """Passes of the reading request that end at a position."""
    ran = chunks(facts.trace.candidate.dump, reader(facts))
    return [chunk for chunk in ran if chunk.stop == position and chunk.start < position]


def _as_read(facts: OriginFacts, chunk: Chunk) -> bool | None:
    """Whether the origin's state is the one that a pass had read; None if that is not known."""
    read = state_in(facts, chunk.request, chunk.start, chunk.pass_index)
    own = facts.digests(1)
    if read is None and chunk.start == 0:
        return facts.all_zero
    if read is None or own is None or int(read.parts[0]) != len(own):
        return None
    return bool((facts.stores[1].digests(read.first, len(own))[0] == own).all())


def _baseline_stays(facts: OriginFacts, start: int) -> bool:
    """Whether the baseline's state is the same before and after those tokens."""
    after = facts.digests(0)
    if start == 0:
        own = facts.digests(1)
        return after is not None and own is not None and np.array_equal(after, own)
    before = facts.digests(0, start)
    if before is None or after is None:
        return False
    return np.array_equal(before, after)


def _says(facts: OriginFacts, chunk: Chunk) -> str:
    read = "which was empty" if chunk.start == 0 else f"as it had read it at {chunk.start}"
    return f"{chunk} consumed {chunk.stop - chunk.start} tokens and left the {what(facts)} {read}"
