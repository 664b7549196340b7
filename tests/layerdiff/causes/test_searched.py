"""Whose value was read: all that a dump shows of states is searched."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from layerdiff.model import Origin
from layerdiff.vocabulary import Cause, Moment
from tests.layerdiff.causes.cache_scene import OTHER, TOKENS, Array, Run, cold, first, key, state

HIT = 8
Looks = Sequence[tuple[int, Array, Moment]]
BEGIN = np.full((2, 3, 4), 0.25, np.float32)


def warm(
    path: Path,
    found: Array | None = None,
    *,
    fill: Looks = (),
    other: Looks = (),
    stops: Sequence[int] = (HIT,),
    read: dict[int, Array] | None = None,
    salt: str = "",
) -> Path:
    """Two requests that fill, with what is told of their states, and one that takes over."""
    with Run(path, "warm", salt) as run:
        foreign = run.request("other", OTHER[:HIT])
        for position, value, moment in other:
            run.seen(foreign, position, value, moment)
        run.step(foreign, 0, HIT)
        source = run.request("fill", TOKENS[:HIT])
        for position, value, moment in fill:
            run.seen(source, position, value, moment)
        for start, stop in zip((0, *stops), stops, strict=False):
            run.step(source, start, stop)
        request = run.request("r", TOKENS, hit=HIT, source=source)
        run.step(request, HIT, 14, found=found, read=read)
    return path


def origin(folder: Path, candidate: Path, salt: str = "") -> Origin:
    """The first origin beside a cold run that shows no state before the hit."""
    return first(cold(folder / "cold.h5", HIT, 14, salt=salt), candidate)


def ruled_out(found: Origin) -> set[Cause]:
    return {ruled.cause for ruled in found.ruled_out}


@pytest.mark.parametrize("salt", ["", "q."])
def test_a_state_that_was_only_saved_is_known(tmp_path: Path, salt: str) -> None:
    """No pass ended at 4; the checkpoint of 4 was saved on the way."""
    saved = [(4, state(TOKENS, 4), Moment.SAVED)]
    path = warm(tmp_path / "w.h5", state(TOKENS, 4), fill=saved, salt=salt)
    found = origin(tmp_path, path, salt)
    assert (found.cause, found.position) == (Cause.STATE_WRONG_POSITION, HIT)
    assert "position 4" in found.evidence[0].fact


def test_another_text_s_saved_state_is_foreign(tmp_path: Path) -> None:
    """The look-alike: saved at 4 under other tokens."""
    saved = [(4, state(OTHER, 4), Moment.SAVED)]
    found = origin(tmp_path, warm(tmp_path / "w.h5", state(OTHER, 4), other=saved))
    assert found.cause is Cause.STATE_FOREIGN


def test_a_state_that_nobody_saw_equals_nothing(tmp_path: Path) -> None:
    """The look-alike: nothing that was recorded is the state at 4."""
    found = origin(tmp_path, warm(tmp_path / "w.h5", state(TOKENS, 4)))
    assert found.cause is Cause.STATE_CORRUPTED


def test_a_state_that_broke_on_its_way_into_a_checkpoint_is_corrupted(tmp_path: Path) -> None:
    """What was saved is not what had been left: its copy explains nothing."""
    broken = state(TOKENS, HIT, 0.5)
    saved = [(HIT, broken, Moment.SAVED)]
    found = origin(tmp_path, warm(tmp_path / "w.h5", broken, fill=saved))
    assert found.cause is Cause.STATE_CORRUPTED


def test_a_broken_checkpoint_of_another_position_is_known(tmp_path: Path) -> None:
    """What was saved at 4 is not what was left there, and is what was read at the hit."""
    broken = state(TOKENS, 4, 0.5)
    saved = [(4, broken, Moment.SAVED)]
    path = warm(tmp_path / "w.h5", broken, fill=saved, stops=(4, HIT))
    assert origin(tmp_path, path).cause is Cause.STATE_WRONG_POSITION


def test_a_learned_initial_state_is_that_of_position_0(tmp_path: Path) -> None:
    """The hit began with what every request begins with."""
    begin = [(0, BEGIN, Moment.IN)]
    found = origin(tmp_path, warm(tmp_path / "w.h5", BEGIN, fill=begin, other=begin))
    assert (found.cause, found.position) == (Cause.STATE_WRONG_POSITION, HIT)
    assert "position 0" in found.evidence[0].fact


def test_a_slot_that_was_not_cleared_is_no_initial_state(tmp_path: Path) -> None:
    """The look-alike: "fill" began on a slot that held what another request had left."""
    theirs = state(OTHER, HIT)
    path = warm(tmp_path / "w.h5", theirs, fill=[(0, theirs, Moment.IN)])
    assert origin(tmp_path, path).cause is Cause.STATE_FOREIGN


def test_an_initial_state_that_a_pass_left_in_place_was_not_written(tmp_path: Path) -> None:
    """The look-alike: the first pass consumed its tokens and did not write back."""
    with Run(tmp_path / "w.h5") as run:
        request = run.request("r", TOKENS)
        run.seen(request, 0, BEGIN, Moment.IN)
        run.step(request, 0, HIT)
        run.step(request, HIT, 14, found=BEGIN)
    assert origin(tmp_path, run.path).cause is Cause.STATE_NOT_WRITTEN


@pytest.mark.parametrize("zeros", [[0.0], [-0.0], [0.0, -0.0]])
def test_zero_has_two_signs(tmp_path: Path, zeros: list[float]) -> None:
    """A state that was cleared by multiplication."""
    cleared = np.resize(np.array(zeros, np.float32), (2, 3, 4))
    found = origin(tmp_path, warm(tmp_path / "w.h5", cleared))
    assert (found.cause, found.position) == (Cause.STATE_ZERO, HIT)


def test_nearly_zero_is_not_zero(tmp_path: Path) -> None:
    """The look-alike."""
    found = origin(tmp_path, warm(tmp_path / "w.h5", np.full((2, 3, 4), 1e-30, np.float32)))
    assert found.cause is Cause.STATE_CORRUPTED
    assert Cause.STATE_ZERO in ruled_out(found)


def test_pages_of_zeros_are_named(tmp_path: Path) -> None:
    """Rows that were never copied in, the very first among them."""
    zeros = {p: np.zeros((2, 4), np.float32) for p in range(HIT)}
    found = origin(tmp_path, warm(tmp_path / "w.h5", read=zeros))
    assert (found.cause, found.tensor, found.position) == (Cause.STATE_ZERO, "kv_key", 0)


@pytest.mark.parametrize("rest", [{}, {4: key(OTHER, 4)}])
def test_one_row_of_zeros_is_no_page(tmp_path: Path, rest: dict[int, Array]) -> None:
    """The look-alike: a row may be zero by its token."""
    read = {3: np.zeros((2, 4), np.float32), **rest}
    found = origin(tmp_path, warm(tmp_path / "w.h5", read=read))
    assert found.cause is not Cause.STATE_ZERO
    assert Cause.STATE_ZERO in ruled_out(found)


def half(value: Array) -> Array:
    return value.astype(np.float16)


def test_a_cast_does_not_hide_another_position(tmp_path: Path) -> None:
    """Checkpoints in float16, and the one of 4 was handed out for the one of the hit."""
    path = warm(tmp_path / "w.h5", half(state(TOKENS, 4)), stops=(4, HIT))
    found = origin(tmp_path, path)
    assert found.cause is Cause.STATE_WRONG_POSITION
    assert "position 4" in found.evidence[0].fact
    assert "cast" in found.evidence[0].fact
    assert Cause.DTYPE_REQUANT in ruled_out(found)


def test_a_cast_does_not_hide_another_text(tmp_path: Path) -> None:
    """The look-alike: the state at the hit under other tokens."""
    found = origin(tmp_path, warm(tmp_path / "w.h5", half(state(OTHER, HIT)), stops=(4, HIT)))
    assert found.cause is Cause.STATE_FOREIGN


def test_the_right_state_in_another_dtype_was_cast(tmp_path: Path) -> None:
    """The look-alike: as near as a cast leaves it."""
    found = origin(tmp_path, warm(tmp_path / "w.h5", half(state(TOKENS, HIT)), stops=(4, HIT)))
    assert found.cause is Cause.DTYPE_REQUANT


def test_another_dtype_alone_is_no_cast(tmp_path: Path) -> None:
    """The look-alike: farther off than a cast can bring it, and near nothing."""
    far = half(state(TOKENS, HIT, 3.0))
    found = origin(tmp_path, warm(tmp_path / "w.h5", far, stops=(4, HIT)))
    assert found.cause is Cause.STATE_CORRUPTED
    assert Cause.DTYPE_REQUANT in ruled_out(found)
