"""Blocks of a paged cache: who wrote the one that was read, and what became of it since."""

from dataclasses import dataclass

from layerdiff.books import covers, told
from layerdiff.format.reader import Dump
from layerdiff.format.records import Event
from layerdiff.vocabulary import EventKind


@dataclass(frozen=True, slots=True)
class BlockRead:
    """One row of a cache, as a pass read it through its block table."""

    read: Event
    written: Event
    """How the row got into the cache, as the engine's books say."""
    place: int
    """The block that the row was written to, wherever it was moved since."""


def block_read(dump: Dump, request: int, position: int, until_pass: int) -> BlockRead | None:
    """The last read of a request's row up to a pass; None without records of both ends."""
    for read in reversed(told(dump, EventKind.KV_READ, request=request, until_pass=until_pass)):
        if covers(read, position) and read.place is not None and read.source_request is not None:
            written = _written(dump, read, position)
            if written is None or written.place is None:
                return None
            return BlockRead(read, written, _moved(dump, written, read))
    return None


def _written(dump: Dump, read: Event, position: int) -> Event | None:
    """Where the writer that the books name put a row."""
    writes = told(dump, EventKind.KV_WRITE, request=read.source_request, before=read.index)
    for event in reversed(writes):
        # A block may have been filled by several passes; the books name the last of them.
        by_pass = read.source_pass is None or event.pass_index <= read.source_pass
        if covers(event, position) and by_pass and event.text == read.text:
            return event
    return None


def _moved(dump: Dump, written: Event, read: Event) -> int:
    """Where a block lies when it is read."""
    place = written.place if written.place is not None else -1
    for move in told(dump, EventKind.MOVE, before=read.index):
        here = move.place == place and move.text == written.text and move.index > written.index
        if here and move.value is not None:
            place = move.value
    return place


def misread(found: BlockRead) -> str | None:
    """What shows that another block was read than the one that holds the row."""
    if found.read.place == found.place:
        return None
    return (
        f"the kernel was given block {found.read.place} for it, and the row was written to block "
        f"{found.place}"
    )


def rewrite(dump: Dump, found: BlockRead, position: int) -> Event | None:
    """What was written into the row's block, or whom it was handed to, before it was read.

    New rows behind the old ones, and a ring that goes round, leave the generation as it is and are
    no rewrite.
    """
    writes = told(dump, EventKind.KV_WRITE, place=found.place, before=found.read.index)
    handed = told(dump, EventKind.ALLOC, place=found.place, before=found.read.index)
    for event in (*writes, *handed):
        if event.index <= found.written.index or event.text != found.written.text:
            continue
        generations = (found.written.generation, event.generation)
        moved_on = None not in generations and generations[0] != generations[1]
        again = event.kind is EventKind.KV_WRITE and covers(event, position)
        if moved_on or again:
            return event
    return None
