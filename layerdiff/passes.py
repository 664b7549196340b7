"""Which passes of a dump ran which positions of a request."""

from dataclasses import dataclass

import numpy as np

from layerdiff.format.reader import Dump


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one pass did for one request."""

    request: int
    name: str
    pass_index: int
    start: int
    stop: int
    """Positions [start, stop), whether their tokens were kept or not."""

    def __str__(self) -> str:
        return f"request {self.name!r}, pass {self.pass_index}, [{self.start}, {self.stop})"

    def covers(self, position: int) -> bool:
        """Whether the row of a position went through it."""
        return self.start <= position < self.stop


def chunks(dump: Dump, request: int) -> list[Chunk]:
    """Every pass of a request, in order of time."""
    spans = dump.spans[dump.spans["request"] == request]
    spans = spans[np.argsort(spans["rowset"], kind="stable")]
    rowset, name = dump.passes["rowset"], dump.requests[request].name
    low = np.searchsorted(spans["rowset"], rowset, side="left")
    high = np.searchsorted(spans["rowset"], rowset, side="right")
    return [
        Chunk(request, name, int(index), int(span["start"]), int(span["stop"]))
        for index in np.flatnonzero(high > low)
        for span in spans[low[index] : high[index]]
    ]


def chunk_in(dump: Dump, request: int, pass_index: int) -> Chunk | None:
    """What one pass did for one request; None if nothing."""
    found = (chunk for chunk in chunks(dump, request) if chunk.pass_index == pass_index)
    return next(found, None)
