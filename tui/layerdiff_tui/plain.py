"""Text that others wrote, made fit to be shown: nothing moves the cursor or turns the line."""

import unicodedata

from rich.cells import cell_len

_ASCII = str.maketrans(
    {
        "·": "-",
        "×": "x",
        "…": "...",
        "≠": "!=",
        "→": "->",
        "─": "-",
        "▸": ">",
        "▾": "v",
    }
)
"""The signs that layerdiff itself writes; all else outside ASCII becomes an escape."""


def shown(text: str) -> str:
    """*text* with control, zero-width and unpaired characters written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _harmless(c) else c.encode("unicode_escape").decode() for c in text)


def _harmless(character: str) -> bool:
    """Whether a character is printable, takes up room and keeps the direction of the line."""
    return (
        character.isprintable()
        and cell_len(character) > 0
        and unicodedata.bidirectional(character) not in ("R", "AL")
    )


def to_ascii(text: str) -> str:
    """*text* in ASCII alone."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def clipped(text: str, width: int) -> str:
    """*text* in at most *width* columns, its middle left out if need be."""
    if len(text) <= width and cell_len(text) <= width:
        return text
    half = max(width - 1, 0) // 2
    head, tail = _fitting(text, max(width - 1 - half, 0)), _fitting(text[::-1], half)[::-1]
    return f"{head}…{tail}" if width > 0 else ""


def _fitting(text: str, width: int) -> str:
    """The longest beginning of *text* that takes up at most *width* columns."""
    kept = ""
    for character in text[:width]:
        if cell_len(kept + character) > width:
            break
        kept += character
    return kept
