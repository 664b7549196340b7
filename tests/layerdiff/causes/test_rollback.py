"""What stays of drafted tokens that were rejected."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, EventKind, Phase, Verdict
from tests.layerdiff.causes.cache_scene import (
    ATTENTION,
    KEY,
    TOKENS,
    Array,
    Run,
    cold,
    compare,
    first,
    key,
    state,
)

DRAFTED = (*TOKENS[:6], 0, 0)
"""Positions 4 and 5 are accepted, 6 and 7 are not."""


def drafted(
    path: Path,
    *,
    told: bool = True,
    found: Array | None = None,
    read: dict[int, Array] | None = None,
    held: int | None = None,
    salt: str = "",
) -> Path:
    """A prompt of 4, a verify pass over positions 3 to 8 of which two are kept, and the rest."""
    with Run(path, salt=salt) as run:
        request = run.request("r", DRAFTED, given=4)
        run.step(request, 0, 3)
        run.step(request, 3, 8, phase=Phase.VERIFY)
        if told:
            run.event(EventKind.ACCEPTED, request=request, span=(4, 8), value=2)
            run.event(EventKind.ROLLBACK, request=request, span=(6, 8))
        run.replace(request, 6, TOKENS[6:])
        if held is not None:
            run.event(EventKind.OFFSET, request=request, span=(6, 7), value=held, site=KEY)
        off = 0.5 if held not in (None, 6) else 0.0
        run.step(request, 6, 9, found=found, phase=Phase.DECODE, attended=off)
        run.step(request, 9, 14, read=read, phase=Phase.DECODE)
    return path


def baseline(path: Path, salt: str = "") -> Path:
    """The same text without drafts."""
    with Run(path, "cold", salt) as run:
        request = run.request("r", TOKENS, given=4)
        for start, stop in ((0, 3), (3, 6), (6, 9), (9, 14)):
            run.step(request, start, stop)
    return path


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("salt", ["", "q."])
def test_a_state_that_keeps_rejected_tokens_is_named(
    tmp_path: Path, told: bool, salt: str
) -> None:
    """The state as read has consumed all drafts; events or replaced tokens show it."""
    broken = drafted(tmp_path / "b.h5", told=told, found=state(DRAFTED, 8), salt=salt)
    origin = first(baseline(tmp_path / "a.h5", salt), broken)
    assert (origin.cause, origin.position) == (Cause.ROLLBACK_MISSING, 6)
    assert "from 6 on were rejected" in origin.evidence[0].fact


@pytest.mark.parametrize("told", [True, False])
def test_a_row_that_was_rejected_is_named(tmp_path: Path, told: bool) -> None:
    """The key at 6 is that of the rejected token."""
    broken = drafted(tmp_path / "b.h5", told=told, read={6: key(DRAFTED, 6)})
    origin = first(baseline(tmp_path / "a.h5"), broken)
    assert (origin.cause, origin.position) == (Cause.ROLLBACK_MISSING, 6)


def test_a_healthy_rollback_is_no_difference(tmp_path: Path) -> None:
    """Rejected versions are cells of another prefix."""
    healthy = drafted(tmp_path / "b.h5", held=6)
    assert compare(baseline(tmp_path / "a.h5"), healthy).verdict is Verdict.IDENTICAL


def test_a_state_before_the_drafts_is_another_position(tmp_path: Path) -> None:
    """Taken back too far: what it holds was accepted."""
    broken = drafted(tmp_path / "b.h5", found=state(TOKENS, 3))
    origin = first(baseline(tmp_path / "a.h5"), broken)
    assert origin.cause is not Cause.ROLLBACK_MISSING
    assert Cause.ROLLBACK_MISSING in {ruled.cause for ruled in origin.ruled_out}


def test_a_value_that_nobody_wrote_is_not(tmp_path: Path) -> None:
    """A rejection happened, and the state is broken for another reason."""
    broken = drafted(tmp_path / "b.h5", found=state(TOKENS, 6, 0.5))
    assert first(baseline(tmp_path / "a.h5"), broken).cause is not Cause.ROLLBACK_MISSING


def test_a_cache_that_was_not_cut_is_named(tmp_path: Path) -> None:
    """The layer's own count says that the rejected rows are still there."""
    broken = drafted(tmp_path / "b.h5", held=8)
    origin = first(baseline(tmp_path / "a.h5"), broken)
    assert (origin.cause, origin.position) == (Cause.ROLLBACK_MISSING, 6)
    assert Cause.KV_LENGTH in origin.also
    assert origin.site.endswith(Run(tmp_path / "c.h5").names[ATTENTION])


def test_a_count_that_no_rejection_explains_is_kv_length(tmp_path: Path) -> None:
    """One row too many, and not those of the drafts."""
    broken = drafted(tmp_path / "b.h5", held=7)
    assert first(baseline(tmp_path / "a.h5"), broken).cause is Cause.KV_LENGTH


def test_a_cold_run_has_no_rejections(tmp_path: Path) -> None:
    """Where nothing was drafted the cause is not even ruled out."""
    a = cold(tmp_path / "a.h5", 4, 8, 14)
    with Run(tmp_path / "b.h5") as run:
        request = run.request("r", TOKENS)
        for start, stop in ((0, 4), (4, 8)):
            run.step(request, start, stop)
        run.step(request, 8, 14, found=state(TOKENS, 8, 0.5))
    origin = first(a, run.path)
    assert Cause.ROLLBACK_MISSING not in {ruled.cause for ruled in origin.ruled_out}
