"""In which chunks a run computed its prompts, read from its dump."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.lineage import Part, trace_line
from layerdiff.segments import index_segments
from layerdiff.vocabulary import Phase
from layerdiff_hooks.hunt.arm import Chunks

_UNKNOWN = -1


def read_layout(dump: Dump) -> dict[str, Chunks]:
    """By request, the chunks that made its prompt: those of who filled its cache come first.

    Where a position was computed again, the last time counts. A request is left out if nothing
    recorded says who computed some of its positions.
    """
    index = index_segments(dump)
    found = {}
    for request in dump.requests:
        length = int(np.count_nonzero(dump.chain(request.index)[2]))
        made = np.full(length, _UNKNOWN, np.int64)
        for part in trace_line(dump, index, request.index, length).parts:
            own = part.request == request.index
            _paint(made, dump, Part(part.request, 0, length) if own else part)
        if length and _UNKNOWN not in made:
            found[request.name] = _runs(made)
    return found


def _paint(made: NDArray[np.int64], dump: Dump, part: Part) -> None:
    """Notes for each position of a part which pass computed it."""
    flags, phase = dump.passes["flags"], dump.passes["phase"]
    for index in dump.model_passes.tolist():
        if flags[index] & schema.PASS_FAILED or phase[index] == Phase.DRAFT:
            continue
        for span in dump.rowset(int(dump.passes["rowset"][index])):
            if span["request"] == part.request:
                start, stop = int(span["start"]), int(span["stop"])
                made[max(start, part.start) : max(0, min(stop, part.stop))] = index


def _runs(made: NDArray[np.int64]) -> Chunks:
    edges = [0, *(np.flatnonzero(np.diff(made)) + 1).tolist(), len(made)]
    return tuple(pairwise(edges))
