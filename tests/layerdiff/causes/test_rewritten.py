"""Blocks that were written again, and blocks that were not the right ones."""

from pathlib import Path
from typing import Any

import pytest

from layerdiff.vocabulary import Cause, EventKind, Verdict
from tests.layerdiff.causes.cache_scene import (
    ATTENTION,
    OTHER,
    TOKENS,
    Run,
    cold,
    compare,
    first,
    key,
)

HIT = 8
THEIRS = {p: key(OTHER, p) for p in range(HIT)}


def paged(path: Path, *, given: int, again: bool, read: Any, salt: str = "") -> Path:
    """ "fill" writes block 2; another request may take it; "r" reads block *given*."""
    with Run(path, "warm", salt) as run:
        fill = run.request("fill", TOKENS[:HIT])
        kv: dict[str, Any] = {"span": (0, HIT), "text": "kv"}
        run.event(EventKind.ALLOC, request=fill, place=(2, 1), text="kv")
        run.event(EventKind.KV_WRITE, request=fill, place=(2, 1), **kv)
        wrote = run.step(fill, 0, HIT)
        other = run.request("other", OTHER)
        place = (2, 2) if again else (4, 1)
        run.event(EventKind.ALLOC, request=other, place=place, text="kv")
        run.event(EventKind.KV_WRITE, request=other, place=place, **kv)
        run.step(other, 0, 14)
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        read_at: dict[str, Any] = {"source": (fill, wrote), "place": (given, 1), **kv}
        run.event(EventKind.KV_READ, request=request, **read_at)
        run.step(request, HIT, 14, read=read)
    return path


@pytest.mark.parametrize("salt", ["", "b2."])
def test_a_block_that_was_handed_out_again_is_named(tmp_path: Path, salt: str) -> None:
    """The books say who wrote into it, and the bits are that request's."""
    broken = paged(tmp_path / "b.h5", given=2, again=True, read=THEIRS, salt=salt)
    origin = first(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    assert origin.cause is Cause.KV_OVERWRITTEN
    assert "other" in origin.evidence[0].fact


@pytest.mark.parametrize("salt", ["", "b2."])
def test_a_stale_block_table_is_named(tmp_path: Path, salt: str) -> None:
    """The row's own block is untouched; the kernel was given another one."""
    broken = paged(tmp_path / "b.h5", given=4, again=False, read=THEIRS, salt=salt)
    origin = first(cold(tmp_path / "a.h5", 8, 14, salt=salt), broken)
    assert (origin.cause, origin.also) == (Cause.KV_READ_PATH, ())


def test_foreign_rows_in_the_right_block_are_neither(tmp_path: Path) -> None:
    """Nothing that was told explains them: the bits alone speak."""
    broken = paged(tmp_path / "b.h5", given=2, again=False, read=THEIRS)
    origin = first(cold(tmp_path / "a.h5", 8, 14), broken)
    assert origin.cause is Cause.STATE_FOREIGN
    assert {Cause.KV_OVERWRITTEN} <= {ruled.cause for ruled in origin.ruled_out}


def test_a_block_that_moved_is_no_stale_table(tmp_path: Path) -> None:
    """Books follow a block to its new place."""
    with Run(tmp_path / "b.h5", "warm") as run:
        fill = run.request("fill", TOKENS[:HIT])
        kv: dict[str, Any] = {"span": (0, HIT), "text": "kv"}
        run.event(EventKind.KV_WRITE, request=fill, place=(2, 1), **kv)
        wrote = run.step(fill, 0, HIT)
        run.event(EventKind.MOVE, place=(2, 1), value=6, text="kv")
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        run.event(EventKind.KV_READ, request=request, source=(fill, wrote), place=(6, 1), **kv)
        run.step(request, HIT, 14, read={3: key(TOKENS, 3, 0.5)})
    origin = first(cold(tmp_path / "a.h5", 8, 14), run.path)
    assert origin.cause is Cause.STATE_CORRUPTED


def attended(path: Path, facts: dict[str, object], off: float = 0.5) -> Path:
    """A decode step over rows that are all right, with launch facts."""
    with Run(path) as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, HIT)
        run.step(request, HIT, 14, attended=off, kernel=facts)
    return path


@pytest.mark.parametrize(
    ("healthy", "given"),
    [({"kv_len": 14}, {"kv_len": 13}), ({"stride": [8, 4]}, {"stride": [4, 8]})],
)
def test_a_kernel_that_was_told_wrongly_is_named(
    tmp_path: Path, healthy: dict[str, object], given: dict[str, object]
) -> None:
    """Query, keys and values agree; the length or the stride does not."""
    trusted = attended(tmp_path / "a.h5", healthy, 0.0)
    origin = first(trusted, attended(tmp_path / "b.h5", given))
    assert origin.cause is Cause.KV_READ_PATH
    assert origin.site == Run(tmp_path / "c.h5").names[ATTENTION]
    same = first(trusted, attended(tmp_path / "d.h5", healthy))
    assert same.cause is not Cause.KV_READ_PATH


def test_other_facts_without_a_difference_are_no_origin(tmp_path: Path) -> None:
    """Launch facts accuse nobody while the bits agree."""
    trusted = attended(tmp_path / "a.h5", {"kv_len": 14}, 0.0)
    report = compare(trusted, attended(tmp_path / "b.h5", {"kv_len": 13}, 0.0))
    assert report.verdict is Verdict.IDENTICAL
