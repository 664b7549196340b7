"""Caches that hold more or fewer rows than tokens were seen."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, EventKind, Verdict
from tests.layerdiff.causes.cache_scene import KEY, TOKENS, Run, compare, first, key


def counted(
    path: Path, held: int | None, *, off: float = 0.0, ring: int = 99, salt: str = ""
) -> Path:
    """Two passes; before the second the layer's cache says how much it holds."""
    with Run(path, salt=salt) as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, 8)
        run.event(EventKind.OFFSET, request=request, span=(8, 9), value=min(8, ring), site=KEY)
        run.step(request, 8, 13)
        if held is not None:
            run.event(EventKind.OFFSET, request=request, span=(13, 14), value=held, site=KEY)
        run.step(request, 13, 14, attended=off)
    return path


@pytest.mark.parametrize("salt", ["", "n."])
@pytest.mark.parametrize(("held", "word"), [(14, "twice"), (12, "missing")])
def test_a_count_that_is_off_is_named(tmp_path: Path, held: int, word: str, salt: str) -> None:
    """The cache held the last token already, or lost one."""
    trusted = counted(tmp_path / "a.h5", 13, salt=salt)
    origin = first(trusted, counted(tmp_path / "b.h5", held, off=0.5, salt=salt))
    assert (origin.cause, origin.position) == (Cause.KV_LENGTH, 13)
    assert word in origin.evidence[0].fact


def test_a_right_count_leaves_the_kernel(tmp_path: Path) -> None:
    """The look-alike: the same difference behind a cache of the right length."""
    trusted = counted(tmp_path / "a.h5", 13)
    origin = first(trusted, counted(tmp_path / "b.h5", 13, off=0.5))
    assert origin.cause is not Cause.KV_LENGTH
    because = next(r.because for r in origin.ruled_out if r.cause is Cause.KV_LENGTH)
    assert "13 rows" in because


def test_the_first_wrong_count_is_told(tmp_path: Path) -> None:
    """A count that stays off began to be off with an earlier pass."""
    with Run(tmp_path / "b.h5") as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, 8)
        run.event(EventKind.OFFSET, request=request, span=(8, 9), value=9, site=KEY)
        run.step(request, 8, 13)
        run.event(EventKind.OFFSET, request=request, span=(13, 14), value=14, site=KEY)
        run.step(request, 13, 14, attended=0.5)
    origin = first(counted(tmp_path / "a.h5", 13), run.path)
    assert (origin.cause, origin.position) == (Cause.KV_LENGTH, 13)
    assert "holds 9 rows" in origin.evidence[0].fact
    assert "1 is there twice" in origin.evidence[0].fact


def test_a_window_is_not_a_loss(tmp_path: Path) -> None:
    """A ring keeps its last rows, and the baseline shows how many."""
    trusted = counted(tmp_path / "a.h5", None, ring=6)
    origin = first(trusted, counted(tmp_path / "b.h5", 6, off=0.5, ring=6))
    assert origin.cause is not Cause.KV_LENGTH
    origin = first(trusted, counted(tmp_path / "c.h5", 5, off=0.5, ring=6))
    assert origin.cause is Cause.KV_LENGTH


def wrapped(path: Path, *, lost: bool, nudge: float = 0.0) -> Path:
    """A window of 4 that went on to 12 before a request took its first 8 rows over."""
    with Run(path, "warm") as run:
        fill = run.request("fill", TOKENS[:12])
        run.step(fill, 0, 8)
        run.step(fill, 8, 12)
        request = run.request("r", TOKENS, hit=8, source=fill)
        rows = {p: key(TOKENS, p + 4, nudge) for p in range(4, 8)} if lost else {}
        run.step(request, 8, 14, read=rows)
    return path


def test_a_ring_that_lost_its_rows_is_named(tmp_path: Path) -> None:
    """Where the kept rows should be lie those of later positions of the same text."""
    with Run(tmp_path / "a.h5", "cold") as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, 8)
        run.step(request, 8, 14)
    broken = wrapped(tmp_path / "b.h5", lost=True)
    origin = first(run.path, broken)
    assert (origin.cause, origin.position) == (Cause.KV_LENGTH, 4)
    assert "4 positions later" in origin.evidence[0].fact
    other = first(run.path, wrapped(tmp_path / "c.h5", lost=True, nudge=0.5))
    assert other.cause is Cause.STATE_CORRUPTED
    healthy = compare(run.path, wrapped(tmp_path / "d.h5", lost=False))
    assert healthy.verdict is Verdict.IDENTICAL


def with_sinks(path: Path, held: int, sinks: int, off: float = 0.0) -> Path:
    """Every cache of this engine holds some rows before the first token."""
    with Run(path) as run:
        request = run.request("r", TOKENS)
        for start, stop, rows in ((0, 8, sinks), (8, 14, held)):
            span = (start, start + 1)
            run.event(EventKind.OFFSET, request=request, span=span, value=rows, site=KEY)
            run.step(request, start, stop, attended=off if start else 0.0)
    return path


def test_rows_that_every_arm_has_are_no_excess(tmp_path: Path) -> None:
    """Attention sinks: the baseline ran in one pass and shows them before its first token."""
    with Run(tmp_path / "a.h5") as run:
        request = run.request("r", TOKENS)
        run.event(EventKind.OFFSET, request=request, span=(0, 1), value=4, site=KEY)
        run.step(request, 0, 14)
    found = first(run.path, with_sinks(tmp_path / "b.h5", 12, 4, off=0.5))
    assert found.cause is not Cause.KV_LENGTH
    assert Cause.KV_LENGTH in {ruled.cause for ruled in found.ruled_out}
    found = first(run.path, with_sinks(tmp_path / "c.h5", 13, 4, off=0.5))
    assert found.cause is Cause.KV_LENGTH
    assert "1 is there twice" in found.evidence[0].fact


def test_rows_that_the_candidate_alone_has_are_an_excess(tmp_path: Path) -> None:
    """The look-alike: the baseline's cache was empty before its first token."""
    trusted = with_sinks(tmp_path / "a.h5", 8, 0)
    found = first(trusted, with_sinks(tmp_path / "b.h5", 12, 4, off=0.5))
    assert found.cause is Cause.KV_LENGTH
