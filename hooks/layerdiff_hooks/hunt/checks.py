"""Whether a run did what its arm asked for; a control that did not would prove nothing."""

from layerdiff.format.reader import Dump, Request
from layerdiff.vocabulary import EventKind
from layerdiff_hooks.hunt.arm import Arm
from layerdiff_hooks.hunt.layout import read_layout


def unasked_hit(arm: Arm, dump: Dump) -> str | None:
    """Who served a request from a cache in an arm that takes nothing over; None if nobody did."""
    if arm.reuse and arm.restore:
        return None
    return next((_served_words(r, dump) for r in dump.requests if r.hit), None)


def broken_promise(arm: Arm, dump: Dump) -> str | None:
    """What else the run did otherwise, in words; None if it kept to its arm."""
    if arm.poison not in (None, "slack") and not any(r.hit for r in dump.requests):
        return "no request was served from a cache, so nothing was there to poison"
    mixed = None if arm.mates else _mixed_pass(dump)
    if mixed is not None:
        return f"pass {mixed} holds rows of several requests"
    return _other_layout(arm, dump)


def _served_words(request: Request, dump: Dump) -> str:
    giver = request.source
    if giver is None:
        asked = (event for event in dump.events if event.request == request.index)
        sources = [e.source_request for e in asked if e.kind is EventKind.LOOKUP]
        giver = next((source for source in sources if source is not None), None)
    whom = (
        f"request {dump.requests[giver].name!r} of the same run"
        if giver is not None
        else "something that no request of this run computed"
    )
    return f"request {request.name!r} was served a hit of {request.hit} tokens by {whom}"


def _mixed_pass(dump: Dump) -> int | None:
    for index in dump.model_passes.tolist():
        if len(set(dump.rowset(int(dump.passes["rowset"][index]))["request"].tolist())) > 1:
            return int(index)
    return None


def _other_layout(arm: Arm, dump: Dump) -> str | None:
    if arm.layout is None:
        return None
    for name, chunks in read_layout(dump).items():
        asked = arm.layout.get(name, chunks)
        if asked != chunks:
            return (
                f"request {name!r} was computed in {_words(chunks)}, and not in {_words(asked)} "
                "as the warm run; follow arm.layout or raise Unsupported"
            )
    return None


def _words(chunks: tuple[tuple[int, int], ...]) -> str:
    shown = " ".join(f"[{start}, {stop})" for start, stop in chunks[:6])
    return f"{shown} ..." if len(chunks) > 6 else shown
