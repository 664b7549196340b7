"""Slots of states: twins under one prefix, which only the books can tell apart."""

from pathlib import Path
from typing import Any

import pytest

from layerdiff.vocabulary import Cause, EventKind
from tests.layerdiff.causes.cache_scene import TOKENS, Run, cold, first, state

HIT = 8


def checkpoints(
    path: Path, *, place: int, generation: int = 1, again: bool = False, salt: str = ""
) -> Path:
    """Two requests over one document keep a state each; "r" is given the slot *place*."""
    with Run(path, "warm", salt) as run:
        mine = run.request("mine", TOKENS[:HIT])
        run.event(EventKind.ALLOC, request=mine, place=(1, 1), text="state")
        known: dict[str, Any] = {"text": "state"}
        wrote = run.step(mine, 0, HIT)
        run.event(EventKind.STATE_WRITE, request=mine, span=(8, 9), place=(1, 1), **known)
        twin = run.request("twin", TOKENS[:12])
        run.event(EventKind.ALLOC, request=twin, place=(2, 1), text="state")
        run.step(twin, 0, 4)
        run.event(EventKind.STATE_WRITE, request=twin, span=(4, 5), place=(2, 1), **known)
        run.step(twin, 4, 12)
        if again:
            run.event(EventKind.ALLOC, request=twin, place=(1, 2), text="state")
        request = run.request("r", TOKENS, hit=HIT, source=mine)
        run.event(
            EventKind.STATE_READ,
            request=request,
            span=(8, 9),
            place=(place, generation),
            source=(mine, wrote),
            **known,
        )
        run.step(request, HIT, 14, found=state(TOKENS, 4))
    return path


@pytest.mark.parametrize("salt", ["", "g."])
@pytest.mark.parametrize(("place", "again"), [(2, False), (1, True)])
def test_a_twins_slot_is_named(tmp_path: Path, place: int, again: bool, salt: str) -> None:
    """The state is one of the same text, but the slot is another request's."""
    broken = checkpoints(tmp_path / "b.h5", place=place, again=again, salt=salt)
    origin = first(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    assert (origin.cause, origin.position) == (Cause.STATE_FOREIGN, HIT)


def test_the_right_slot_with_an_old_state_is_another_position(tmp_path: Path) -> None:
    """The look-alike: books and slot agree, and the state lies one chunk back."""
    broken = checkpoints(tmp_path / "b.h5", place=1)
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is Cause.STATE_WRONG_POSITION


def compacted(path: Path, *, to: int) -> Path:
    """Two running requests; a third one's slot is freed, and one of the two is moved."""
    with Run(path, "warm") as run:
        one, two = run.request("r", TOKENS), run.request("s", TOKENS[:10])
        for slot, request in enumerate((one, two)):
            run.event(EventKind.ALLOC, request=request, place=(slot, 1), text="state")
        run.step(one, 0, HIT)
        run.step(two, 0, 4)
        run.event(EventKind.MOVE, request=two, place=(1, 1), value=to, text="state")
        run.step(two, 4, 10)
        run.step(one, HIT, 14, found=state(TOKENS, 4))
    return path


def test_a_slot_with_two_holders_is_named(tmp_path: Path) -> None:
    """Compaction gave one request's slot to another; a free one is no such thing."""
    trusted = cold(tmp_path / "a.h5", 8, 14)
    assert first(trusted, compacted(tmp_path / "b.h5", to=0)).cause is Cause.STATE_FOREIGN
    healthy = first(trusted, compacted(tmp_path / "c.h5", to=2))
    assert healthy.cause is not Cause.STATE_FOREIGN
