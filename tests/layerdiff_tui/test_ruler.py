"""What stands above the grid."""

import numpy as np
import pytest

from layerdiff_tui import ruler
from layerdiff_tui.session import View
from layerdiff_tui.viewport import Viewport


def make_view(size: int, chunks: list[int], takeovers: tuple[int, ...] = ()) -> View:
    """A view without rows."""
    return View("r1", "", (), size, np.array(chunks), takeovers)


@pytest.mark.parametrize("level", [-2, 0, 1, 5])
@pytest.mark.parametrize("left", [0, 320])
def test_each_label_begins_at_the_column_of_its_position(level: int, left: int) -> None:
    """Whatever the zoom."""
    viewport = Viewport(5_000, 70, level, left)
    text = ruler.labels(viewport)
    assert len(text) == 70
    for word in text.split():
        column = text.index(f" {word}") + 1 if f" {word}" in text else 0
        assert viewport.cell_of(int(word)) * viewport.cell_width == column


def test_passes_and_takeovers_are_ticks() -> None:
    """Absolute positions, one sign each."""
    line = ruler.ticks(make_view(12, [0, 4, 7], (4,)), Viewport(12, 14), ascii_only=True)
    assert line == "#---H'-+--'-  "


def test_many_passes_in_one_bin_are_one_tick() -> None:
    """Decoding makes a pass a token."""
    view = make_view(64, list(range(64)))
    line = ruler.ticks(view, Viewport(64, 40, level=2), ascii_only=False)
    assert set(line[:16]) <= {"┬", "┼"}


def test_neighbouring_passes_differ_in_shade() -> None:
    """Their borders run through all rows."""
    odd = ruler.chunk_parity(make_view(6, [0, 2, 3]), Viewport(6, 6))
    assert odd.tolist() == [False, False, True, False, False, False]


def test_a_bin_in_which_a_pass_begins_has_its_shade() -> None:
    """Tick and shade begin in the same column."""
    odd = ruler.chunk_parity(make_view(16, [0, 6]), Viewport(16, 4, level=2))
    assert odd.tolist() == [False, True, True, True]
