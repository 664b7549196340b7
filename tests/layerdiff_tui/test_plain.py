"""Hostile text."""

import pytest
from rich.cells import cell_len

from layerdiff_tui.plain import clipped, shown, to_ascii
from tests.layerdiff_tui.dumps import HOSTILE


def test_hostile_text_shows_as_escapes() -> None:
    """Nothing is left that moves the cursor, turns the line or cannot be seen."""
    text = shown(HOSTILE)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\u200b" in text
    assert "[red]x[/red]" in text


def test_letters_from_right_to_left_are_escaped() -> None:
    """They would put the rest of the line in another order."""
    assert shown("a\u05d0b") == "a\\u05d0b"


def test_plain_text_is_left_alone() -> None:
    """Wide and accented letters too."""
    assert shown("layer · × é 層") == "layer · × é 層"


def test_ascii_is_ascii() -> None:
    """The tool's own signs have twins, the rest is escaped."""
    assert to_ascii("token 3 · 2×4 ≠ 層") == "token 3 - 2x4 != \\u5c64"


@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize("text", ["short", "x" * 10_000, "層" * 50, "a層b層c層d"])
def test_clipped_text_fits(text: str, width: int) -> None:
    """Wide letters count twice; beginning and end are kept."""
    found = clipped(text, width)
    assert cell_len(found) <= width
    assert found == text or "…" in found or not width
