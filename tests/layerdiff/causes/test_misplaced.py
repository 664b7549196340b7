"""A state that was read where no pass had left one."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import Cause, Moment, Reach, TensorKind, Verdict
from tests.layerdiff.causes.cache_scene import OTHER, TOKENS, Array, Run, cold, compare, state


def replayed(path: Path, found: Array, *, salt: str = "") -> Path:
    """A request whose hit ends one token before the state that it is given."""
    with Run(path, "warm", salt) as run:
        fill = run.request("fill", TOKENS[:8])
        run.step(fill, 0, 4)
        run.step(fill, 4, 8)
        other = run.request("other", OTHER[:6])
        run.step(other, 0, 6)
        request = run.request("r", TOKENS, hit=7, source=fill)
        run.step(request, 7, 14, found=found)
    return path


@pytest.mark.parametrize("salt", ["", "z9."])
def test_the_state_behind_the_last_token_is_named_though_neither_arm_left_one_there(
    tmp_path: Path, salt: str
) -> None:
    """The last token of a prompt that was cached as a whole runs once more on top of itself."""
    path = replayed(tmp_path / "b.h5", state(TOKENS, 8), salt=salt)
    report = compare(cold(tmp_path / "a.h5", 4, 8, 14, salt=salt), path)
    origin = report.origins[0]
    assert (origin.cause, origin.position) == (Cause.STATE_WRONG_POSITION, 7)
    assert (origin.tensor, origin.moment) == ("recurrent_state", "in")


def test_another_text_s_state_is_foreign(tmp_path: Path) -> None:
    """It was left at another position, under other tokens."""
    path = replayed(tmp_path / "b.h5", state(OTHER, 6))
    origin = compare(cold(tmp_path / "a.h5", 4, 8, 14), path).origins[0]
    assert (origin.cause, origin.position) == (Cause.STATE_FOREIGN, 7)


def test_a_state_that_nothing_left_anywhere_is_no_difference(tmp_path: Path) -> None:
    """The right state of a position inside a pass: nobody saw it before."""
    path = replayed(tmp_path / "b.h5", state(TOKENS, 7))
    report = compare(cold(tmp_path / "a.h5", 4, 8, 14), path)
    assert report.verdict is not Verdict.DIVERGED
    assert not report.origins


def test_equal_states_behind_equal_rows_are_no_difference(tmp_path: Path) -> None:
    """One token over and over again: the window of a convolution holds the same everywhere."""
    paths = []
    for arm, hit in (("cold", 0), ("warm", 7)):
        paths.append(tmp_path / f"{arm}.h5")
        with DumpBuilder(paths[-1], arm=arm) as builder:
            builder.site("x:in", layer_index=0)
            kind = TensorKind.CONV_STATE
            builder.site("x:conv", kind=kind, layer_index=0, reach=Reach.STATE, inputs=["x:in"])
            builder.site("x:out", layer_index=0, reach=Reach.STATE, inputs=["x:in", "x:conv"])
            source = builder.request("fill", (5,) * 8) if hit else None
            if source is not None:
                _pass(builder, source, 0, 8)
            _pass(builder, builder.request("r", (5,) * 14, hit=hit, source=source), hit, 14)
    assert not compare(*paths).origins


def _pass(builder: DumpBuilder, request: int, start: int, stop: int) -> None:
    rows, window = np.ones((stop - start, 4), np.float32), np.ones((1, 3, 4), np.float32)
    span = [(request, start, stop)]
    builder.observe("x:in", rows, span)
    for position, moment in ((start, Moment.IN), (stop, Moment.OUT)):
        if position:
            where = [(request, position, position + 1)]
            builder.observe("x:conv", window, where, moment=moment, parts=True)
    builder.observe("x:out", rows, span)
    builder.commit(span)
