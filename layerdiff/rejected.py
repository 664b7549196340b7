"""Which rows a pass computed under drafted tokens that were then rejected."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from layerdiff.books import told
from layerdiff.format.reader import Dump
from layerdiff.passes import Chunk, chunks
from layerdiff.vocabulary import EventKind


@dataclass(frozen=True, slots=True)
class Rejection:
    """Rows from *start* on, in one pass, that belong to no text."""

    chunk: Chunk
    start: int

    def spoils(self, pass_index: int, rows: int) -> bool:
        """Whether what a pass made of a request's first *rows* rows contains such a row."""
        return self.chunk.pass_index == pass_index and self.start < rows <= self.chunk.stop


_KNOWN: WeakKeyDictionary[Dump, dict[int, list[Rejection]]] = WeakKeyDictionary()


def rejections(dump: Dump, request: int) -> list[Rejection]:
    """Rejected runs of a request: as the engine told, and as replaced tokens show."""
    known = _KNOWN.setdefault(dump, {})
    if request not in known:
        known[request] = _rejections(dump, request)
    return known[request]


def _rejections(dump: Dump, request: int) -> list[Rejection]:
    ran = chunks(dump, request)
    found = []
    for start, stop, until in _told(dump, request):
        # The pass that verified drafts holds the token before them too; the next one does not.
        verified = [c for c in ran if c.pass_index <= until and c.start < start and stop <= c.stop]
        if verified:
            found.append(Rejection(verified[-1], start))
    for position, times in _replaced(dump, request):
        made = [chunk for chunk in ran if chunk.covers(position)]
        found += [Rejection(chunk, position) for chunk in made[: min(times, len(made) - 1)]]
    return list(dict.fromkeys(found))


def _told(dump: Dump, request: int) -> list[tuple[int, int, int]]:
    """First rejected position, end of the drafted run, and the pass until which it ran."""
    found = []
    for kind in (EventKind.ROLLBACK, EventKind.ACCEPTED):
        for event in told(dump, kind, request=request):
            if event.start is None or event.stop is None:
                continue
            kept = (event.value or 0) if kind is EventKind.ACCEPTED else 0
            if event.start + kept < event.stop:
                found.append((event.start + kept, event.stop, event.pass_index))
    return found


def _replaced(dump: Dump, request: int) -> list[tuple[int, int]]:
    """Positions that held other tokens before, and how many."""
    tokens = dump.tokens[dump.tokens["request"] == request]
    links = np.unique(np.stack([tokens["position"].astype(np.uint64), tokens["chain"]]), axis=1)
    position, count = np.unique(links[0], return_counts=True)
    return [(int(p), int(n) - 1) for p, n in zip(position, count, strict=True) if n > 1]
