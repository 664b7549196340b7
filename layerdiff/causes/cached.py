"""What rules about cached values have in common."""

import numpy as np

from layerdiff.facts import OriginFacts
from layerdiff.passes import Chunk, chunk_in
from layerdiff.rejected import rejections
from layerdiff.segments import Cells, expand
from layerdiff.vocabulary import Moment, TensorKind
from layerdiff.written import Seen


def found_in_cache(facts: OriginFacts) -> bool:
    """Whether the origin is in what was found in a cache, not in what a kernel made."""
    cached = facts.site.kind.is_state or facts.site.kind.is_kv
    read = facts.find.moment in (Moment.IN, Moment.RESTORED)
    return cached and (read or facts.find.breach)


def what(facts: OriginFacts) -> str:
    """The kind of the value, as words."""
    return facts.site.kind.word.replace("_", " ")


def on_the_same_text(facts: OriginFacts, other: Seen) -> bool:
    """Whether *other* sums up a prefix or a continuation of the origin's own tokens."""
    if other.chain is None or is_rejected(facts, other):
        return False
    at = facts.find.position
    if other.position < at:
        return facts.prefix(other.position) == other.chain
    return facts.prefix(at) == facts.prefix_of(other, at)


def is_rejected(facts: OriginFacts, other: Seen) -> bool:
    """Whether *other* was made under drafted tokens that were then rejected."""
    dump = facts.lines[0 if other.side == "baseline" else 1].dump
    rows = other.position if facts.site.kind.is_state else other.position + 1
    return any(r.spoils(other.pass_index, rows) for r in rejections(dump, other.request))


def depends_on_few_tokens(facts: OriginFacts) -> bool:
    """Whether the value is made of tokens alone, before any layer has mixed them."""
    layers = [s.layer_index for s in facts.trace.order if s.layer_index is not None]
    first = facts.site.layer_index in (None, min(layers, default=None))
    return first and facts.site.kind in (TensorKind.KV_VALUE, TensorKind.CONV_STATE)


def reader(facts: OriginFacts) -> int:
    """The request in whose cache the candidate's cell was looked at."""
    line, cell = facts.trace.candidate, facts.cell(1)
    members = {part.request for part in line.parts}
    if len(cell):
        rowset = int(line.dump.observations["rowset"][cell.observation[0]])
        for span in line.dump.rowset(rowset):
            if (
                int(span["request"]) in members
                and span["start"] <= facts.find.position < span["stop"]
            ):
                return int(span["request"])
    return line.request


def owner(facts: OriginFacts) -> Chunk | None:
    """The pass of the candidate's own line that computed the origin's row, its last version."""
    line, at = facts.trace.candidate, facts.find.position
    rows = expand(line.rows(facts.site.index, Moment.COMPUTED).clip(at, at + 1))
    part = next((part for part in line.parts if part.start <= at < part.stop), None)
    if not len(rows) or part is None:
        return None
    made = int(line.dump.observations["pass_index"][rows.observation[-1]])
    return chunk_in(line.dump, part.request, made)


def state_in(facts: OriginFacts, request: int, position: int, pass_index: int) -> Cells | None:
    """The state at the origin's site as one pass of the candidate read it."""
    index = facts.trace.candidate.index
    found = index.find(request, facts.site.index, Moment.IN).clip(position, position + 1)
    passes = facts.trace.candidate.dump.observations["pass_index"][found.observation]
    cells = expand(found.take(np.flatnonzero(passes == pass_index)))
    return cells.take(slice(len(cells) - 1, len(cells))) if len(cells) else None


def chunk_of(facts: OriginFacts, side: int) -> Chunk | None:
    """What the pass of the origin's cell did for the request whose cell it is, in one arm."""
    made, line = facts.pass_of(side), facts.lines[side]
    if made is None:
        return None
    for part in reversed(line.parts):
        chunk = chunk_in(line.dump, part.request, made)
        if chunk is not None:
            return chunk
    return None
