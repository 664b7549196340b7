"""A state that a pass left as it had read it."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, EventKind
from tests.layerdiff.causes.cache_scene import TOKENS, Run, cold, first, state


@pytest.mark.parametrize("salt", ["", "z9."])
def test_a_state_that_was_not_written_back_is_named(tmp_path: Path, salt: str) -> None:
    """The next pass reads what the pass before it had read, whatever things are called."""
    with Run(tmp_path / "b.h5", salt=salt) as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, 4)
        run.step(request, 4, 8)
        run.step(request, 8, 14, found=state(TOKENS, 4))
    origin = first(cold(tmp_path / "a.h5", 4, 8, 14, salt=salt), run.path)
    assert (origin.cause, origin.position) == (Cause.STATE_NOT_WRITTEN, 8)
    assert "consumed 4 tokens" in origin.evidence[0].fact


def test_a_kernel_that_leaves_its_state_alone_is_named(tmp_path: Path) -> None:
    """What a pass left is what it had read, and the baseline's moved on."""
    with Run(tmp_path / "b.h5") as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, 4)
        run.step(request, 4, 8, left=state(TOKENS, 4))
    origin = first(cold(tmp_path / "a.h5", 4, 8), run.path)
    assert (origin.cause, origin.moment) == (Cause.STATE_NOT_WRITTEN, "out")


def test_a_kernel_that_computes_another_state_is_not(tmp_path: Path) -> None:
    """The pass did write; what it wrote is wrong for another reason."""
    with Run(tmp_path / "b.h5") as run:
        request = run.request("r", TOKENS)
        run.step(request, 0, 4)
        run.step(request, 4, 8, left=state(TOKENS, 8, 0.5))
    origin = first(cold(tmp_path / "a.h5", 4, 8), run.path)
    assert origin.cause is not Cause.STATE_NOT_WRITTEN
    assert Cause.STATE_NOT_WRITTEN in {ruled.cause for ruled in origin.ruled_out}


def test_an_early_checkpoint_is_another_position(tmp_path: Path) -> None:
    """A later request was given a state that lies one chunk back: restored, not left."""
    with Run(tmp_path / "b.h5", "warm") as run:
        fill = run.request("fill", TOKENS[:8])
        run.step(fill, 0, 4)
        run.step(fill, 4, 8)
        request = run.request("r", TOKENS, hit=8, source=fill)
        run.event(EventKind.STATE_READ, request=request, span=(8, 9), source=(fill, 1))
        run.step(request, 8, 14, found=state(TOKENS, 4))
    origin = first(cold(tmp_path / "a.h5", 14), run.path)
    assert origin.cause is Cause.STATE_WRONG_POSITION
    assert Cause.STATE_NOT_WRITTEN not in origin.also
