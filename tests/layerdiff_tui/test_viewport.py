"""Positions and columns."""

from dataclasses import replace

import pytest

from layerdiff_tui.viewport import WIDEST, Viewport


@pytest.mark.parametrize("size", [1, 2, 79, 80, 81, 100_000])
def test_fitting_shows_every_position_as_close_as_possible(size: int) -> None:
    """One level closer, some position would not be shown, unless cells are wide already."""
    fitted = Viewport(size, 80).fitted()
    closer = replace(fitted, level=fitted.level - 1)
    assert fitted.shows_all
    assert fitted.level == -2 or not closer.shows_all


def test_few_positions_get_wide_cells() -> None:
    """A short request uses the room there is."""
    assert Viewport(10, 80).fitted().cell_width == 3


def test_bins_start_at_multiples_of_their_size() -> None:
    """Scrolling does not change which positions share a cell."""
    viewport = Viewport(1000, 10, level=3).showing(999)
    assert viewport.left % viewport.bin_size == 0
    assert viewport.bin_of(13) == (8, 16)
    assert viewport.bin_of(998) == (992, 1000)


@pytest.mark.parametrize("position", [0, 5, 63, 64, 500, 999])
@pytest.mark.parametrize("level", [WIDEST, -1, 0, 1, 4])
def test_showing_brings_a_position_onto_the_screen(position: int, level: int) -> None:
    """Its cell lies between the edges."""
    viewport = Viewport(1000, 50, level).showing(position)
    assert 0 <= viewport.cell_of(position) < viewport.cells


def test_showing_leaves_no_room_behind_the_last_position() -> None:
    """The last cell is at the right edge at most."""
    assert Viewport(100, 50, left=90).showing(95).left == 50


@pytest.mark.parametrize("steps", [1, -1, 3, -2])
def test_zooming_keeps_the_anchor_on_the_screen(steps: int) -> None:
    """What the cursor is at does not get lost."""
    viewport = Viewport(10_000, 60, level=4).showing(5_000).zoomed(steps, 5_000)
    assert 0 <= viewport.cell_of(5_000) < viewport.cells
    assert viewport.level == 4 - steps


def test_zooming_out_stops_when_all_is_shown() -> None:
    """A farther level would only waste room."""
    viewport = Viewport(1000, 60).zoomed(-20, 0)
    assert viewport.level == Viewport(1000, 60).fitting_level


def test_zooming_in_stops_at_the_widest_cells() -> None:
    """Four columns a position are enough."""
    assert Viewport(1000, 60).zoomed(20, 0).level == WIDEST


def test_a_column_gives_the_position_of_its_cell() -> None:
    """All columns of a wide cell stand for one position; outside is clamped."""
    viewport = Viewport(10, 40, level=-2)
    assert [viewport.position_at(column) for column in (0, 2, 3, 500)] == [0, 0, 1, 9]
