"""What events say of a line: rounds of drafts, and how many rows a cache held before a pass."""

from layerdiff.lineage import Line
from layerdiff.vocabulary import EventKind, Role


def accepted_rounds(line: Line) -> dict[int, int]:
    """Drafts accepted by the position of the first one drafted; the last word counts."""
    own = line.request
    return {
        event.start: event.value
        for event in line.dump.events
        if event.kind is EventKind.ACCEPTED
        and event.request == own
        and event.start is not None
        and event.value is not None
    }


def offsets(line: Line, role: Role) -> dict[tuple[str, int], int]:
    """Rows that a cache of one role held, by its site's name and where the pass begins."""
    sites = line.dump.sites
    return {
        (sites[event.site].name, event.start): event.value
        for event in line.dump.events
        if event.kind is EventKind.OFFSET
        and event.request == line.request
        and event.site is not None
        and event.start is not None
        and event.value is not None
        and sites[event.site].role is role
    }
