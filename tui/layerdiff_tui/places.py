"""Reads where ``g`` shall go: ``70``, ``L3``, ``L3:70``, ``norm:70``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from layerdiff.vocabulary import Role
from layerdiff_tui.rows import Row

_LAYER = re.compile(r"(?P<role>[LlDd])\s*(?P<layer>\d{1,9})$")


@dataclass(frozen=True, slots=True)
class Place:
    """A row and a position; None stays where the cursor is."""

    key: str | None
    position: int | None


def parse_place(text: str, rows: Sequence[Row], size: int) -> Place:
    """The place that *text* names.

    Args:
        rows: The rows of the grid, those of layers and of what lies outside.
        size: Positions there are.

    Raises:
        ValueError: It names none; the message says what would.
    """
    row_words, separator, position_words = text.strip().rpartition(":")
    if not separator and not position_words.isdecimal():
        row_words, position_words = position_words, ""
    if not row_words and not position_words:
        raise ValueError("write a position (70), a layer (L3) or both (L3:70)")
    key = _row(row_words.strip(), rows).key if row_words.strip() else None
    if not position_words.strip():
        return Place(key, None)
    return Place(key, _position(position_words.strip(), size))


def _position(text: str, size: int) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no position; write a number such as 70")
    position = int(text[:18])
    if position >= size:
        raise ValueError(f"there is no position {position}; the last one is {size - 1}")
    return position


def _row(text: str, rows: Sequence[Row]) -> Row:
    match = _LAYER.match(text)
    if match:
        role = Role.DRAFTER if match["role"] in "dD" else Role.TARGET
        layer = (role, int(match["layer"]))
        for row in rows:
            if row.layer == layer:
                return row
        raise ValueError(f"there is no layer {layer[1]}")
    for row in rows:
        if text.lower() in row.label.lower():
            return row
    raise ValueError(f"no layer and no row is called {text!r}; write L3 for layer 3")
