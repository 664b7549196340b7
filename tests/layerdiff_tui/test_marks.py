"""Bins show their worst cell."""

import time

import numpy as np
import pytest

from layerdiff.vocabulary import Mark
from layerdiff_tui.marks import (
    DUMP_SIGNS,
    PAIR_SIGNS,
    DumpMark,
    bin_marks,
    cover,
    worst,
    worst_at,
)


def test_a_bin_shows_its_worst_cell() -> None:
    """One origin among a thousand cells is not lost."""
    marks = np.full(1000, Mark.AGREES, np.uint8)
    marks[700] = Mark.ORIGIN
    binned = bin_marks(marks, 0, 64, 16)
    assert binned.tolist() == [*[Mark.AGREES] * 10, Mark.ORIGIN, *[Mark.AGREES] * 5]


@pytest.mark.parametrize("bin_size", [1, 2, 8])
@pytest.mark.parametrize("left", [0, 8, 24])
def test_bins_are_those_of_a_plain_loop(bin_size: int, left: int) -> None:
    """Also where the last bin is not full."""
    marks = np.random.default_rng(0).integers(0, 7, 61).astype(np.uint8)
    starts = range(left, min(left + 5 * bin_size, 61), bin_size)
    expected = [int(marks[at : min(at + bin_size, 61)].max()) for at in starts]
    assert bin_marks(marks, left, bin_size, 5).tolist() == expected


def test_nothing_lies_behind_the_last_position() -> None:
    """An empty window has no cells."""
    assert len(bin_marks(np.zeros(5, np.uint8), 8, 4, 3)) == 0


def test_the_worst_position_of_a_bin_is_the_cursors_if_it_can_be() -> None:
    """Else it is the first one."""
    marks = np.array([0, 3, 1, 3, 0], np.uint8)
    assert worst_at(marks, 0, 5, near=3) == 3
    assert worst_at(marks, 0, 5, near=2) == 1
    assert worst_at(marks, 9, 12, near=9) == 9


def test_a_row_of_rows_shows_the_worst_of_each_position() -> None:
    """Positions stay apart."""
    assert worst([np.array([0, 5], np.uint8), np.array([1, 2], np.uint8)]).tolist() == [1, 5]


def test_every_mark_has_a_sign_of_its_own() -> None:
    """No mark is told from another by its colour alone."""
    assert len({sign.sign for sign in PAIR_SIGNS}) == len(PAIR_SIGNS) == len(Mark)
    assert len({sign.sign for sign in DUMP_SIGNS}) == len(DUMP_SIGNS) == len(DumpMark)


def test_runs_cover_what_lies_below_the_size() -> None:
    """Overlaps count once."""
    start, stop = np.array([1, 2, 6]), np.array([3, 4, 8])
    assert cover(start, stop, 8, 2).tolist() == [0, 2, 2, 2, 0, 0, 2, 2]


def test_a_screen_of_a_hundred_thousand_positions_takes_milliseconds() -> None:
    """Fifty rows of the widest bins are computed anew for each key."""
    rows = np.random.default_rng(0).integers(0, 7, (50, 100_000)).astype(np.uint8)
    start = time.process_time()
    for row in rows:
        bin_marks(row, 0, 1024, 98)
    assert time.process_time() - start < 0.1
