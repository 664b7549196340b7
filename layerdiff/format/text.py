"""Interned text and the JSON in it, read from files that nobody vouches for."""

import json
import math
from typing import Any, Final, NoReturn

import numpy as np

from layerdiff.format import schema
from layerdiff.format.damage import Broken

_MAX_DEPTH: Final = 32
_CONTINUATION: Final = 0b1100_0000, 0b1000_0000
"""Mask and value of a byte inside a UTF-8 sequence."""


class Texts:
    """The interned texts of a dump by id.

    Args:
        heap: Every text's UTF-8, uint8 [bytes].
        ends: Where each text ends in *heap*, uint64 [texts].

    Raises:
        Broken: An end lies outside the heap, a text is too long, or one is no UTF-8.
    """

    def __init__(self, heap: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> None:
        _check_bounds(heap, ends)
        self._heap: Final = heap.tobytes()
        self._ends: Final = ends
        self._known: Final[dict[int, str]] = {}
        try:
            self._heap.decode()
        except UnicodeDecodeError as error:
            raise Broken(f"text byte {error.start} is no UTF-8") from None

    def __len__(self) -> int:
        return len(self._ends)

    def raw(self, identifier: int) -> str:
        """The text as written."""
        start = int(self._ends[identifier - 1]) if identifier else 0
        return self._heap[start : int(self._ends[identifier])].decode()

    def __call__(self, identifier: int) -> str:
        """The text with control characters escaped, fit for a terminal; NO_TEXT is empty."""
        if identifier == schema.NO_TEXT:
            return ""
        known = self._known.get(identifier)
        if known is None:
            known = self._known[identifier] = printable(self.raw(identifier))
        return known


def _check_bounds(heap: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> None:
    if not len(ends):
        raise Broken("there is no header")
    if int(ends[-1]) != len(heap) or bool((ends[1:] < ends[:-1]).any()):
        raise Broken("text_ends do not rise to the end of text_bytes")
    if int(ends[0]) > schema.MAX_HEADER_BYTES:
        raise Broken(f"the header is longer than {schema.MAX_HEADER_BYTES} bytes")
    if len(ends) > 1 and int(np.diff(ends).max()) > schema.MAX_TEXT_BYTES:
        raise Broken(f"a text is longer than {schema.MAX_TEXT_BYTES} bytes")
    mask, value = _CONTINUATION
    starts = ends[ends < len(heap)]
    if bool(((heap[starts] & mask) == value).any()):
        raise Broken("a text ends inside a UTF-8 sequence")


def printable(text: str) -> str:
    """*text* with what would move a terminal's cursor or has no UTF-8 written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_object(text: str, what: str) -> dict[str, object]:
    """The JSON object in *text*; all strings in it fit for a terminal, all numbers finite.

    Raises:
        Broken: It is none, or nests too deeply.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_number)
        if isinstance(value, dict):
            return {printable(key): _clean(item, _MAX_DEPTH) for key, item in value.items()}
    except (ValueError, RecursionError) as error:
        raise Broken(f"{what} is no JSON: {str(error).splitlines()[0]}") from None
    raise Broken(f"{what} is no JSON object")


def _clean(value: object, depth: int) -> object:
    if not depth:
        raise ValueError(f"more than {_MAX_DEPTH} levels")
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {printable(key): _clean(item, depth - 1) for key, item in value.items()}
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number beyond float64")
    return value
