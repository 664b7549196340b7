"""Where g goes."""

import pytest

from layerdiff_tui.places import Place, parse_place
from layerdiff_tui.rows import layer_rows
from tests.layerdiff_tui.test_rows import make_column, make_site

ROWS = layer_rows(
    [make_column(make_site(layer, f"layers.{layer}:out", layer), [1]) for layer in range(12)]
    + [make_column(make_site(12, "norm:out"), [1])]
)


@pytest.mark.parametrize(
    ("text", "row", "position"),
    [
        ("70", None, 70),
        ("L3", "target layer 3", None),
        ("l11:70", "target layer 11", 70),
        (" L3 : 7 ", "target layer 3", 7),
        ("norm", "site 12 computed", None),
        ("norm:0", "site 12 computed", 0),
    ],
)
def test_a_place_is_a_row_a_position_or_both(
    text: str, row: str | None, position: int | None
) -> None:
    """What is not named stays."""
    assert parse_place(text, ROWS, 100) == Place(row, position)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write a position"),
        (":", "write a position"),
        ("100", "the last one is 99"),
        ("9" * 400, "the last one is 99"),
        ("L12", "no layer 12"),
        ("D0", "no layer 0"),
        ("L3:x", "'x' is no position"),
        ("L3:-1", "'-1' is no position"),
        ("nowhere", "'nowhere'"),
    ],
)
def test_what_names_no_place_says_what_would(text: str, words: str) -> None:
    """The message is shown under the line."""
    with pytest.raises(ValueError) as caught:
        parse_place(text, ROWS, 100)
    assert words in str(caught.value)
