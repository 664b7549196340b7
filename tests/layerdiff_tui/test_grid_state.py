"""The cursor, what is open, and what is shown."""

import numpy as np
import pytest

from layerdiff_tui.grid_state import GridState
from layerdiff_tui.rows import layer_rows
from layerdiff_tui.session import View
from tests.layerdiff_tui.test_rows import make_column, make_site


def make_state(layers: int = 20, size: int = 100, width: int = 40, height: int = 8) -> GridState:
    """Layers of three sites each; passes begin at 0, 30 and 60."""
    columns = [
        make_column(make_site(3 * layer + site, f"layers.{layer}:{site}", layer), [1] * size)
        for layer in range(layers)
        for site in range(3)
    ]
    view = View("r1", "", layer_rows(columns), size, np.array([0, 30, 60]))
    return GridState.of(view, width, height)


def test_the_cursor_stays_inside() -> None:
    """However far it is sent."""
    state = make_state()
    for steps in (-5, 500):
        state.move_rows(steps)
        state.move_cells(steps)
        assert 0 <= state.row < len(state.visible)
        assert 0 <= state.position < 100
    assert state.top == 12


def test_moving_right_goes_to_the_next_bin() -> None:
    """A step is a cell, not a position."""
    state = make_state()
    assert state.viewport.bin_size == 4
    state.go(6)
    state.move_cells(1)
    assert state.position == 8


def test_opening_shows_all_sites_if_there_is_room() -> None:
    """The grid scrolls so that they are seen, and the layer with them."""
    state = make_state()
    state.move_rows(7)
    state.toggle()
    assert state.current.label == " 7 mlp"
    assert state.top <= state.row <= state.top + state.height - 4
    assert [row.depth for row in state.visible[state.row : state.row + 5]] == [0, 1, 1, 1, 0]


def test_closing_from_a_site_goes_back_to_its_layer() -> None:
    """Enter twice leaves all as it was."""
    state = make_state()
    state.toggle()
    state.move_rows(2)
    state.toggle()
    assert (state.row, len(state.visible)) == (0, 20)


def test_going_to_a_site_opens_its_layer_and_shows_both() -> None:
    """A site without its layer says little."""
    state = make_state()
    key = state.view.rows[15].children[1].key
    assert state.go_to_row(key)
    assert state.current.key == key
    assert state.top <= state.row - 2
    assert not state.go_to_row("nowhere")


def test_passes_are_walked_by_their_beginnings() -> None:
    """To the end behind the last one, to 0 before the first."""
    state = make_state()
    found = []
    for step in (state.next_chunk,) * 4 + (state.previous_chunk,) * 4:
        step()
        found.append(state.position)
    assert found == [30, 60, 99, 99, 60, 30, 0, 0]


@pytest.mark.parametrize("width", [1, 5, 200])
@pytest.mark.parametrize("height", [1, 3, 50])
def test_any_size_of_screen_keeps_the_cursor_in_view(width: int, height: int) -> None:
    """Down to a single cell."""
    state = make_state()
    state.move_rows(15)
    state.go(77)
    state.resize(width, height)
    assert state.top <= state.row < state.top + state.height
    assert 0 <= state.viewport.cell_of(77) < state.viewport.cells


def test_a_zoom_that_was_chosen_survives_another_width() -> None:
    """Only a fitted grid is fitted again."""
    state = make_state()
    state.resize(80, 8)
    assert state.viewport.bin_size == 2
    state.zoom(1)
    state.resize(20, 8)
    assert state.viewport.bin_size == 1
    state.fit()
    assert state.viewport.shows_all


def test_the_spot_of_a_bin_is_its_worst_position() -> None:
    """So that the detail pane speaks of what the sign shows."""
    state = make_state()
    state.current.marks[6] = 6
    state.go(4)
    assert (state.spot.start, state.spot.stop, state.spot.position) == (4, 8, 6)
