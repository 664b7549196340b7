"""Values that a cache casts another number of times than the baseline's."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.vocabulary import Cause, EventKind
from tests.layerdiff.causes.cache_scene import KEY, TOKENS, Array, Run, cold, first, key

HIT = 8


def cast(rows: dict[int, Array]) -> dict[int, Array]:
    """Rows as float16 keeps them."""
    return {p: row.astype(np.float16).astype(np.float32) for p, row in rows.items()}


ROWS = {p: key(TOKENS, p) for p in range(HIT)}


def saved(path: Path, read: dict[int, Array], casts: int, salt: str = "") -> Path:
    """A cache that was saved and loaded between "fill" and "r"."""
    with Run(path, "warm", salt) as run:
        fill = run.request("fill", TOKENS[:HIT])
        run.step(fill, 0, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        for _ in range(casts):
            run.event(
                EventKind.CAST,
                request=request,
                span=(0, HIT),
                value=1,
                text="float32->float16",
                site=KEY,
            )
        run.step(request, HIT, 14, read=read)
    return path


@pytest.mark.parametrize("salt", ["", "c."])
def test_rows_that_were_cast_once_more_are_named(tmp_path: Path, salt: str) -> None:
    """The baseline's rows were not cast, and a cast explains how far they are off."""
    broken = saved(tmp_path / "b.h5", cast(ROWS), 1, salt)
    origin = first(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    assert (origin.cause, origin.position) == (Cause.DTYPE_REQUANT, 0)
    assert "float32->float16" in origin.evidence[0].fact


def test_the_same_casts_in_both_arms_explain_nothing(tmp_path: Path) -> None:
    """The look-alike: both were cast once."""
    healthy = saved(tmp_path / "a.h5", ROWS, 1)
    origin = first(healthy, saved(tmp_path / "b.h5", cast(ROWS), 1))
    assert origin.cause is Cause.STATE_CORRUPTED
    assert Cause.DTYPE_REQUANT in {ruled.cause for ruled in origin.ruled_out}


def test_a_cast_does_not_explain_a_large_difference(tmp_path: Path) -> None:
    """The look-alike: cast, and broken as well."""
    broken = saved(tmp_path / "b.h5", {3: key(TOKENS, 3, 2.0)}, 1)
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is Cause.STATE_CORRUPTED


def test_a_difference_without_a_cast_is_no_cast(tmp_path: Path) -> None:
    """Bits that look like a cast, and nothing that says so."""
    broken = saved(tmp_path / "b.h5", cast(ROWS), 0)
    assert first(cold(tmp_path / "a.h5", 8, 14), broken).cause is Cause.STATE_CORRUPTED
