"""What an engine told of its caches, as it told it: its events, picked by what they are about."""

import numpy as np

from layerdiff.format.reader import Dump
from layerdiff.format.records import Event
from layerdiff.vocabulary import EventKind


def told(
    dump: Dump,
    kind: EventKind,
    *,
    request: int | None = None,
    place: int | None = None,
    before: int | None = None,
    until_pass: int | None = None,
) -> list[Event]:
    """Events of one kind, in the order in which they were told.

    Args:
        request: Only of this request.
        place: Only about this block or slot.
        before: Only what was told before the event of this index.
        until_pass: Only what was told up to the end of this pass.
    """
    records = dump.event_records
    chosen = records["kind"] == kind
    if request is not None:
        chosen &= records["request"] == request
    if place is not None:
        chosen &= records["place"] == place
    if before is not None:
        chosen[before:] = False
    if until_pass is not None:
        chosen &= records["pass_index"] <= until_pass
    return [dump.events[index] for index in np.flatnonzero(chosen).tolist()]


def covers(event: Event, position: int) -> bool:
    """Whether an event is about a position."""
    if event.start is None:
        return False
    stop = event.start + 1 if event.stop is None else event.stop
    return event.start <= position < stop
