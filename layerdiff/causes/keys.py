"""A prefix cache that took one text for another."""

from layerdiff.books import told
from layerdiff.causes.cached import found_in_cache
from layerdiff.causes.ruling import Ruling
from layerdiff.facts import OriginFacts
from layerdiff.format.reader import Dump
from layerdiff.format.records import Event
from layerdiff.vocabulary import Cause, EventKind


def key_collision(facts: OriginFacts) -> Ruling | None:
    """key-collision: the key that was asked for was found, and stands for something else."""
    line = facts.trace.candidate
    if not found_in_cache(facts) or facts.find.position > (line.hit or 0):
        return None
    accepted = [
        event
        for event in told(line.dump, EventKind.LOOKUP, request=line.request)
        if event.facts.get("key") and event.facts.get("key") == event.facts.get("candidate")
    ]
    if not accepted:
        return None
    for event in accepted:
        says = _of_another(event) or _of_other_tokens(line.dump, line.request, event)
        if says:
            return Ruling(
                Cause.KEY_COLLISION, True, f"key {event.facts['key']!r} was found; {says}"
            )
    words = "what the accepted key was made of is the same for both requests"
    return Ruling(Cause.KEY_COLLISION, False, words)


def _of_another(event: Event) -> str | None:
    asked, stored = event.facts.get("of"), event.facts.get("stored_of")
    if asked is None or stored is None or asked == stored:
        return None
    return f"it was stored for something else ({stored!r}) than it was asked for ({asked!r})"


def _of_other_tokens(dump: Dump, request: int, event: Event) -> str | None:
    known = dump.requests[request]
    source = known.source if event.source_request is None else event.source_request
    hit = event.value or known.hit or 0
    if source is None or hit <= 0:
        return None
    ours, theirs = dump.chain(request)[1], dump.chain(source)[1]
    if len(ours) < hit or len(theirs) < hit or ours[hit - 1] == theirs[hit - 1]:
        return None
    name = dump.requests[source].name
    return f"request {name!r}, which filled it, has other tokens in its first {hit}"
