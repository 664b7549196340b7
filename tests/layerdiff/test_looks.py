"""Every look at a cached value counts: those of each pass, and what was restored."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.model import Origin, Report
from layerdiff.vocabulary import Cause, Moment, Verdict
from tests.layerdiff.causes.cache_scene import TOKENS, Array, Run, cold, compare, key, state

HIT = 8
WRONG = key(TOKENS, 5, 0.5)
BROKEN = state(TOKENS, HIT, 0.5)


def read_twice(path: Path, *found: dict[int, Array]) -> Path:
    """A hit whose rows several passes read, each as told."""
    with Run(path, "warm") as run:
        fill = run.request("fill", TOKENS[:HIT])
        run.step(fill, 0, HIT)
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        stops = [*range(HIT + 2, HIT + 2 * len(found), 2), 14]
        for start, stop, rows in zip((HIT, *stops), stops, found, strict=False):
            run.step(request, start, stop, read=rows)
    return path


def only(report: Report) -> Origin:
    assert report.verdict is Verdict.DIVERGED
    (origin,) = report.origins
    return origin


@pytest.mark.parametrize(
    "found", [({5: WRONG}, {}), ({5: WRONG}, {}, {}), ({}, {5: WRONG}, {}), ({}, {5: WRONG})]
)
def test_a_row_that_one_pass_read_wrong_is_an_origin(
    tmp_path: Path, found: tuple[dict[int, Array], ...]
) -> None:
    """Whatever later passes read."""
    path = read_twice(tmp_path / "b.h5", *found)
    origin = only(compare(cold(tmp_path / "a.h5", HIT, 14), path))
    assert (origin.tensor, origin.moment, origin.position) == ("kv_key", "in", 5)
    assert origin.cause is Cause.STATE_CORRUPTED
    assert origin.kernel.candidate is not None
    where = origin.kernel.candidate.where
    assert where is not None
    assert where.pass_index == 1 + found.index({5: WRONG})


def test_rows_that_every_pass_read_right_are_none(tmp_path: Path) -> None:
    """The look-alike."""
    path = read_twice(tmp_path / "b.h5", {}, {}, {})
    assert compare(cold(tmp_path / "a.h5", HIT, 14), path).verdict is Verdict.IDENTICAL


def test_what_two_runs_read_alike_is_a_warning(tmp_path: Path) -> None:
    """A repeat of a run repeats, and what broke in both is said."""
    paths = [read_twice(tmp_path / f"{n}.h5", {5: WRONG}, {}) for n in "ab"]
    report = compare(*paths)
    assert report.verdict is Verdict.IDENTICAL
    assert any("own cache changed" in warning for warning in report.warnings)


@pytest.mark.parametrize("swap", [False, True])
def test_runs_of_the_same_passes_are_compared_look_by_look(tmp_path: Path, swap: bool) -> None:
    """A repeat in which the first pass found another row than before is no repeat."""
    paths = [read_twice(tmp_path / "a.h5", {}, {}), read_twice(tmp_path / "b.h5", {5: WRONG}, {})]
    report = compare(*(reversed(paths) if swap else paths))
    assert report.verdict is Verdict.DIVERGED


def restored(
    path: Path, back: Array | None, *, found: Array | None = None, left: bool = True
) -> Path:
    """A hit of which it was told what was saved and what was restored, and perhaps read.

    Args:
        left: Whether a pass was seen to end at the hit, or the state was only saved there.
    """
    with Run(path, "warm") as run:
        fill = run.request("fill", TOKENS[: HIT if left else HIT + 2])
        run.seen(fill, HIT, state(TOKENS, HIT), Moment.SAVED)
        run.step(fill, 0, HIT if left else HIT + 2)
        request = run.request("r", TOKENS, hit=HIT, source=fill)
        if back is not None:
            run.seen(request, HIT, back, Moment.RESTORED)
        run.step(request, HIT, 14, found=found, unread=found is None)
    return path


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("found", [None, state(TOKENS, HIT)])
def test_what_was_restored_is_compared_with_what_was_saved(
    tmp_path: Path, found: Array | None, left: bool
) -> None:
    """Though nobody saw what was read, or it was right."""
    path = restored(tmp_path / "b.h5", BROKEN, found=found, left=left)
    origin = only(compare(cold(tmp_path / "a.h5", 14), path))
    assert (origin.tensor, origin.moment) == ("recurrent_state", "restored")
    assert (origin.cause, origin.position) == (Cause.STATE_CORRUPTED, HIT)


def test_what_was_restored_is_searched_for(tmp_path: Path) -> None:
    """Nothing came back."""
    path = restored(tmp_path / "b.h5", np.zeros((2, 3, 4), np.float32))
    assert only(compare(cold(tmp_path / "a.h5", 14), path)).cause is Cause.STATE_ZERO


def test_what_was_restored_and_read_is_one_origin(tmp_path: Path) -> None:
    """The pass shows what it read, and the restored state says no more."""
    path = restored(tmp_path / "b.h5", BROKEN, found=BROKEN)
    assert only(compare(cold(tmp_path / "a.h5", 14), path)).moment == "in"


@pytest.mark.parametrize("left", [True, False])
def test_what_came_back_as_it_was_saved_is_none(tmp_path: Path, left: bool) -> None:
    """The look-alike."""
    path = restored(tmp_path / "b.h5", state(TOKENS, HIT), left=left)
    assert compare(cold(tmp_path / "a.h5", HIT + 2, 14), path).verdict is Verdict.IDENTICAL


def test_what_two_runs_restored_alike_is_a_warning(tmp_path: Path) -> None:
    """As for rows."""
    report = compare(*(restored(tmp_path / f"{n}.h5", BROKEN) for n in "ab"))
    assert report.verdict is Verdict.IDENTICAL
    assert any("own cache changed" in warning for warning in report.warnings)
