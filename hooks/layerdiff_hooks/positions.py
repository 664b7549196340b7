"""Where the rows of a batch belong: columns of the model's tensors to positions of requests."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from layerdiff_hooks.ledger import Span

Mask = NDArray[np.bool_]
"""[batch, columns], True where a column holds a token, False where it is a pad."""


class ColumnTable:
    """Which columns of a batch hold tokens, over all passes of its requests.

    Args:
        batch: Rows of the batch.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.width = 0
        """Columns so far."""
        self.lengths = np.zeros(batch, np.int64)
        """Tokens per batch row, which is the position of the next one."""
        self._real = np.zeros((batch, 64), bool)
        self._pads = 0

    @property
    def dense(self) -> bool:
        """Whether no column is a pad."""
        return self._pads == 0

    def extend(self, real: Mask) -> None:
        """Append columns [batch, n]."""
        stop = self.width + real.shape[1]
        if stop > self._real.shape[1]:
            grown = np.zeros((self.batch, max(stop, 2 * self._real.shape[1])), bool)
            grown[:, : self.width] = self._real[:, : self.width]
            self._real = grown
        self._real[:, self.width : stop] = real
        self.width = stop
        tokens = real.sum(axis=1)
        self.lengths += tokens
        self._pads += real.size - int(tokens.sum())

    def truncate(self, width: int) -> None:
        """Keep the first *width* columns."""
        gone = self._real[:, width : self.width]
        self.lengths -= gone.sum(axis=1)
        self._pads -= int(gone.size - gone.sum())
        self.width = width

    def real(self, start: int, stop: int) -> Mask:
        """Columns [start, stop); what lies beyond the table counts as tokens."""
        found = np.ones((self.batch, stop - start), bool)
        known = self._real[:, start : min(stop, self.width)]
        found[:, : known.shape[1]] = known
        return found

    def before(self, column: int) -> NDArray[np.int64]:
        """Tokens per batch row in front of *column*."""
        if self.dense:
            return np.full(self.batch, column, np.int64)
        if column >= self.width:
            return self.lengths + (column - self.width)
        return np.asarray(self._real[:, :column].sum(axis=1), np.int64)

    def columns_for(self, row: int, tokens: int) -> int:
        """The fewest columns that hold the first *tokens* tokens of a batch row."""
        if self.dense:
            return tokens
        filled = np.cumsum(self._real[row, : self.width])
        return int(np.searchsorted(filled, tokens)) + 1 if tokens else 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of tensors [batch, columns, ...] and the positions they stand for."""

    spans: tuple[Span, ...]
    """One a batch row, in their order; an empty one where a row has pads only."""
    real: Mask | None
    """None when every column is a token."""

    def pick(self, tensor: torch.Tensor) -> torch.Tensor:
        """The rows [rows, ...] of *tensor* [batch, columns, ...] in the order of the spans."""
        if self.real is None:
            return tensor.flatten(0, 1)
        row, column = (torch.from_numpy(i).to(tensor.device) for i in np.nonzero(self.real))
        return tensor[row, column]

    def grid(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same rows on two axes, [batch, columns, ...] or [1, rows, ...]: no copy, no view."""
        return tensor if self.real is None else self.pick(tensor)[None]

    def last(self, tensor: torch.Tensor) -> torch.Tensor:
        """The last row [batch, ...] of each batch row; row 0 where it has pads only."""
        if self.real is None:
            return tensor[:, -1]
        width = self.real.shape[1]
        column = width - 1 - self.real[:, ::-1].argmax(axis=1)
        rows = torch.arange(tensor.shape[0], device=tensor.device)
        return tensor[rows, torch.from_numpy(column).to(tensor.device)]

    def tail(self, columns: int) -> "Rows":
        """The rows of the last *columns* columns."""
        if self.real is None:
            kept = [(r, stop - columns, stop) for r, _, stop in self.spans]
            return Rows(tuple(kept), None)
        real = self.real[:, -columns:]
        counts = real.sum(axis=1)
        kept = [
            (r, stop - int(n), stop) for (r, _, stop), n in zip(self.spans, counts, strict=True)
        ]
        return Rows(tuple(kept), None if real.all() else real)


def rows_of(table: ColumnTable, requests: list[int], start: int, stop: int) -> Rows:
    """The rows of columns [start, stop)."""
    if table.dense:
        return Rows(tuple([(request, start, stop) for request in requests]), None)
    first, real = table.before(start), table.real(start, stop)
    counts = real.sum(axis=1)
    spans = [
        (request, int(low), int(low + n))
        for request, low, n in zip(requests, first, counts, strict=True)
    ]
    return Rows(tuple(spans), None if bool(real.all()) else real)


def token_mask(mask: object, batch: int) -> Mask | None:
    """A 2-d attention mask [batch, columns] as booleans; None for any other mask."""
    if not isinstance(mask, torch.Tensor) or mask.ndim != 2 or mask.shape[0] != batch:
        return None
    return np.asarray(mask.detach().ne(0).cpu().numpy(), bool)


def pads_of(real: Mask | None, requests: list[int], pass_index: int) -> list[tuple[int, ...]]:
    """`pads` records for the columns of one pass: pads before and after each row's tokens."""
    if real is None:
        return []
    found: list[tuple[int, ...]] = []
    for request, row in zip(requests, real, strict=True):
        filled = np.flatnonzero(row)
        before = int(filled[0]) if len(filled) else len(row)
        after = len(row) - 1 - int(filled[-1]) if len(filled) else 0
        if before or after:
            found.append((pass_index, request, before, after))
    return found


def rope_of(
    position_ids: object, rows: Rows, width: int, pass_index: int
) -> list[tuple[int, ...]]:
    """`rope` records where the rotary embedding was given something else than positions.

    Args:
        position_ids: [batch or 1, width], [width], or with a leading axis of sections.
    """
    if not isinstance(position_ids, torch.Tensor) or position_ids.is_floating_point():
        return []
    given = position_ids
    if given.ndim == 1:
        given = given[None]
    elif given.ndim == 3:
        given = given[0]
    batch = len(rows.spans)
    if given.ndim != 2 or given.shape[1] != width or given.shape[0] not in (1, batch):
        return []
    columns: list[list[int]] = given.tolist()
    found: list[tuple[int, ...]] = []
    for row, (request, start, stop) in enumerate(rows.spans):
        values = columns[row if len(columns) > 1 else 0]
        if rows.real is not None:
            values = [value for value, real in zip(values, rows.real[row], strict=True) if real]
        if values != list(range(start, stop)):
            found += [(pass_index, request, *run) for run in _runs(values, start)]
    return found


def _runs(values: list[int], start: int) -> list[tuple[int, ...]]:
    """(start, stop, first, step) of each run of constant step."""
    runs: list[tuple[int, ...]] = []
    low = 0
    while low < len(values):
        step = values[low + 1] - values[low] if low + 1 < len(values) else 1
        high = low + 1
        while high < len(values) and values[high] - values[high - 1] == step:
            high += 1
        runs.append((start + low, start + high, values[low], step))
        low = high
    return runs
