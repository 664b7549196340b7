"""The right elements in another order."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.vocabulary import Cause, Phase
from tests.layerdiff.causes.cache_scene import TOKENS, Array, Run, cold, first, key, state

HIT = 8


def warm(
    path: Path,
    *,
    found: Array | None = None,
    read: dict[int, Array] | None = None,
    salt: str = "",
) -> Path:
    """A prefix that was read in another form than it was left in."""
    with Run(path, "warm", salt) as run:
        fill = run.request("fill", TOKENS[:HIT])
        run.step(fill, 0, 4)
        run.step(fill, 4, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        run.step(request, HIT, 14, found=found, read=read)
    return path


@pytest.mark.parametrize("salt", ["", "t."])
def test_a_transposed_state_is_named(tmp_path: Path, salt: str) -> None:
    """Each head's elements are there, as [4, 3] for [3, 4]."""
    transposed = np.ascontiguousarray(state(TOKENS, HIT).swapaxes(1, 2))
    broken = warm(tmp_path / "b.h5", found=transposed, salt=salt)
    origin = first(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    assert (origin.cause, origin.position) == (Cause.LAYOUT, HIT)
    assert origin.also == ()
    assert "(2, 4, 3) where (2, 3, 4)" in origin.evidence[0].fact


def test_a_reshaped_state_with_equal_shape_is_named(tmp_path: Path) -> None:
    """Read with other strides: the shape is right, the order is not."""
    value = state(TOKENS, HIT)
    other = np.ascontiguousarray(value.swapaxes(1, 2)).reshape(value.shape)
    origin = first(cold(tmp_path / "a.h5", 8, 14), warm(tmp_path / "b.h5", found=other))
    assert origin.cause is Cause.LAYOUT


def test_heads_that_changed_places_in_rows_are_named(tmp_path: Path) -> None:
    """Keys read with their heads exchanged."""
    swapped = {p: np.ascontiguousarray(key(TOKENS, p)[::-1]) for p in range(HIT)}
    origin = first(cold(tmp_path / "a.h5", 8, 14), warm(tmp_path / "b.h5", read=swapped))
    assert (origin.cause, origin.position) == (Cause.LAYOUT, 0)


def test_rows_that_changed_places_are_kv_order(tmp_path: Path) -> None:
    """The look-alike: the elements are all there, but so are the rows."""
    moved = {p: key(TOKENS, HIT - 1 - p) for p in range(HIT)}
    origin = first(cold(tmp_path / "a.h5", 8, 14), warm(tmp_path / "b.h5", read=moved))
    assert origin.cause is Cause.KV_ORDER
    assert Cause.LAYOUT in {ruled.cause for ruled in origin.ruled_out}


def test_rejected_drafts_do_not_hide_that_rows_changed_places(tmp_path: Path) -> None:
    """A row was computed twice, under two tokens; what was read is the last one."""
    moved = {p: key(TOKENS, HIT - 1 - p) for p in range(HIT)}
    with Run(tmp_path / "b.h5", "warm") as run:
        fill = run.request("fill", TOKENS[:HIT])
        run.step(fill, 0, HIT)
        drafted = (*TOKENS[:10], 0, 0)
        request = run.request("r", drafted, given=9, hit=HIT, source=fill)
        run.step(request, 8, 9, read=moved)
        run.step(request, 9, 12, read=moved, phase=Phase.VERIFY)
        run.replace(request, 10, TOKENS[10:])
        run.step(request, 10, 12, read=moved, phase=Phase.DECODE)
        run.step(request, 12, 14, read=moved, phase=Phase.DECODE)
    with Run(tmp_path / "a.h5", "cold") as run:
        request = run.request("r", TOKENS, given=9)
        for start, stop in ((0, 8), (8, 9), (9, 10), (10, 12), (12, 14)):
            run.step(request, start, stop)
    origin = first(tmp_path / "a.h5", tmp_path / "b.h5")
    assert (origin.cause, origin.position) == (Cause.KV_ORDER, 0)


def test_other_elements_are_not(tmp_path: Path) -> None:
    """The look-alike: one element is another one."""
    broken = warm(tmp_path / "b.h5", found=state(TOKENS, HIT, 0.5))
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is Cause.STATE_CORRUPTED
