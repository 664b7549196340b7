"""Slots of states: whose state lies in the one that was read, by the engine's own books."""

from layerdiff.books import told
from layerdiff.format.reader import Dump
from layerdiff.format.records import Event
from layerdiff.vocabulary import EventKind


def foreign_slot(dump: Dump, request: int, position: int, until_pass: int) -> str | None:
    """What shows that a request read a slot that holds another one's state.

    A restored checkpoint must lie where the writer that the books name put it, and the slot must
    not have been handed out since; a slot in use must have one holder.
    """
    reads = told(dump, EventKind.STATE_READ, request=request, until_pass=until_pass)
    for read in reversed(reads):
        if read.start == position and read.place is not None:
            says = _restored(dump, read)
            if says:
                return says
            break
    return shared_slot(dump, request, until_pass)


def _restored(dump: Dump, read: Event) -> str | None:
    written = None
    for event in told(dump, EventKind.STATE_WRITE, place=read.place, before=read.index):
        written = event if event.text == read.text else written
    if written is None:
        return None
    if None not in (read.source_request, written.request) and (
        written.request != read.source_request
    ):
        return (
            f"slot {read.place} was last written by request {_name(dump, written.request)}, and "
            f"the books name request {_name(dump, read.source_request)}"
        )
    handed = told(dump, EventKind.ALLOC, place=read.place, before=read.index)
    since = [e for e in handed if e.index > written.index and e.text == read.text]
    if since:
        return (
            f"slot {read.place} was handed to request {_name(dump, since[-1].request)} after it "
            f"was written"
        )
    if None not in (read.generation, written.generation) and read.generation != written.generation:
        return (
            f"slot {read.place} holds generation {written.generation}, and the books name "
            f"generation {read.generation}"
        )
    return None


def shared_slot(dump: Dump, request: int, until_pass: int) -> str | None:
    """Two requests that hold one slot at the same time, one of them the reader."""
    kinds = (EventKind.ALLOC, EventKind.MOVE, EventKind.FREE, EventKind.EVICT)
    events = [event for kind in kinds for event in told(dump, kind, until_pass=until_pass)]
    blocks = {event.text for event in told(dump, EventKind.KV_WRITE)}
    freed = {event.text for event in events if event.kind in kinds[2:]}
    holders: dict[tuple[str, int], set[int]] = {}
    moved: dict[tuple[str, int], int] = {}
    for event in sorted(events, key=lambda event: event.index):
        if event.place is None or event.text in blocks:
            continue
        place = _change(holders, event, event.text in freed)
        if event.kind is EventKind.MOVE:
            moved[event.text, place] = event.place
        held = holders.get((event.text, place), set())
        if request in held and len(held) > 1:
            names = " and ".join(_name(dump, other) for other in sorted(held))
            old = moved.get((event.text, place))
            how = "" if old is None else f": what lay in slot {old} had been moved into it"
            return f"slot {place} was held by requests {names} at the same time{how}"
    return None


def _change(holders: dict[tuple[str, int], set[int]], event: Event, freed: bool) -> int:
    """Follows one event; returns the slot that has a new holder or has lost it.

    Args:
        freed: Whether this engine tells when a slot is given back; else a new holder says so.
    """
    assert event.place is not None
    here = (event.text, event.place)
    if event.kind is EventKind.ALLOC and event.request is not None:
        holders[here] = (holders.get(here, set()) if freed else set()) | {event.request}
    elif event.kind is EventKind.MOVE and event.value is not None:
        moved = holders.pop(here, set())
        here = (event.text, event.value)
        holders[here] = holders.get(here, set()) | moved
    else:
        holders.pop(here, None)
    return here[1]


def _name(dump: Dump, request: int | None) -> str:
    return "unknown" if request is None else repr(dump.requests[request].name)
