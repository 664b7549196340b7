"""Requests as a recording follows them: their tokens, their columns, and whose cache they hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from layerdiff.digest import CHAIN_START, chain_tokens
from layerdiff.vocabulary import EventKind
from layerdiff_hooks.caches.continuity import Memory
from layerdiff_hooks.ledger import Ledger
from layerdiff_hooks.positions import ColumnTable

Segment = tuple[int, int, int, int]
"""(start, stop, request, pass): who wrote a stretch of positions."""


@dataclass(slots=True, eq=False)
class Request:
    """One row of a batch over all its passes."""

    index: int
    row: int
    name: str
    expected: list[int] | None = None
    """The token ids that the user said it would have."""
    given: int = 0
    """Positions below this came from the user."""
    chain: list[int] | None = field(default_factory=list)
    """Unkeyed chain digest per position; None once a token went by unseen."""
    written: list[Segment] = field(default_factory=list)

    def adopt(self, ledger: Ledger, tokens: Sequence[int], chain: Sequence[int]) -> None:
        """The prefix that was in the cache before the first pass."""
        self.chain = list(chain)
        if chain:
            _store(ledger, self, 0, chain, list(tokens) if tokens else [-1] * len(chain))

    def forward(self, ledger: Ledger, start: int, tokens: Sequence[int] | None) -> None:
        """Tokens [start, start + n) go through the model; None when they cannot be known."""
        if tokens is None or self.chain is None or start > len(self.chain):
            if self.chain is not None:
                text = f"tokens of request {self.name} from position {start} on are not known"
                ledger.event(EventKind.GAP, request=self.index, text=text)
            self.chain = None
            return
        self._warn_if_unexpected(ledger, start, tokens)
        before = self.chain[start - 1] if start else CHAIN_START
        chain = chain_tokens(before, tokens).tolist()
        if self.chain[start : start + len(chain)] != chain:
            del self.chain[start:]
            self.chain += chain
            _store(ledger, self, start, chain, tokens)

    def _warn_if_unexpected(self, ledger: Ledger, start: int, tokens: Sequence[int]) -> None:
        expected = (self.expected or [])[start : start + len(tokens)]
        pairs = zip(expected, tokens, strict=False)
        for position, (said, found) in enumerate(pairs, start):
            if said != found:
                text = f"request {self.name}: token {position} is not the one in its token ids"
                ledger.event(EventKind.WARNING, request=self.index, value=position, text=text)
                return

    def wrote(self, start: int, stop: int, pass_index: int) -> None:
        """A pass computed positions [start, stop)."""
        self.cut(start)
        if stop > start:
            self.written.append((start, stop, self.index, pass_index))

    def cut(self, length: int) -> None:
        """Only positions below *length* are left in the cache."""
        while self.written and self.written[-1][1] > length:
            start, _, request, pass_index = self.written.pop()
            if start < length:
                self.written.append((start, length, request, pass_index))
                return


def _store(
    ledger: Ledger, request: Request, start: int, chain: Sequence[int], ids: Sequence[int]
) -> None:
    kept = [token if 0 <= token < 2**31 else -1 for token in ids]
    ledger.tokens(request.index, start, np.array(chain, np.uint64), kept, request.given)


@dataclass(slots=True, eq=False)
class Group:
    """The requests of one batch, which share a cache."""

    requests: list[Request]
    table: ColumnTable
    cache: Any = None
    memory: Memory = field(default_factory=Memory)
    sites: dict[tuple[int, str], str] = field(default_factory=dict)
    """(cache layer, port) to the name of the site where it was seen."""
    passes: int = 0
    started: bool = False
    """Whether its first pass has ended, so that what a pass finds unchanged is carried."""
    lost: bool = False
    """Its rows can no longer be told apart; nothing more is recorded of it."""

    @property
    def indices(self) -> list[int]:
        """The requests' numbers, by batch row."""
        return [request.index for request in self.requests]


@dataclass(slots=True, eq=False)
class Scope:
    """What the user said about the requests to come: a ``request`` block or a ``generate``."""

    names: list[str] | None
    """One for all rows or one a row; None for names made up here."""
    tokens: list[list[int]] | None
    """Given token ids of each row, pads left out; one row stands for all."""
    mask: Any = None
    """The attention mask over the prompt, bool [batch, columns], where one was given."""
    columns: int | None = None
    """Columns of the prompt, pads included."""
    explicit: bool = False
    group: Group | None = None

    def name(self, row: int, batch: int) -> str | None:
        """The name of a row of the batch."""
        if self.names is None:
            return None
        if len(self.names) == batch:
            return self.names[row]
        return self.names[0] if batch == 1 else f"{self.names[0]}/{row}"

    def ids(self, row: int, batch: int) -> list[int] | None:
        """The given token ids of a row; a prompt may stand for several rows in a row."""
        if not self.tokens:
            return None
        repeats = batch // len(self.tokens)
        return self.tokens[row // repeats] if repeats * len(self.tokens) == batch else None


def strip_pads(tokens: list[list[int]], mask: Any) -> list[list[int]]:
    """Token ids per row without the columns that *mask* [batch, columns] calls pads."""
    if mask is None:
        return tokens
    return [
        [token for token, real in zip(row, keep, strict=True) if real]
        for row, keep in zip(tokens, mask, strict=True)
    ]
