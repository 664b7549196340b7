"""Row-wise arithmetic on fixed tiles, so that a row's bits do not depend on its company.

Position p always sits in slot p % TILE of a launch of TILE rows; empty slots are zero rows. Which
pass, chunk or batch a row belongs to then changes neither the shape of a launch nor its slot.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

import torch
from torch import Tensor

from layerdiff_samples.engine.config import TILE
from layerdiff_samples.engine.request import Chunk

Matmul: TypeAlias = Callable[[Tensor, Tensor], Tensor]
RowFunction: TypeAlias = Callable[..., tuple[Tensor, ...]]
"""(matmul, *tiles) -> tiles, each [TILE, ...]."""
MatmulChoice: TypeAlias = Callable[[int], Matmul]
"""Rows of a chunk -> the kernel that projects them."""


def pads_of(start: int, stop: int, tile: int = TILE) -> tuple[int, int]:
    """Empty slots before and after positions [start, stop) in their tiles."""
    return start % tile, -stop % tile


def no_pads(chunk: Chunk, chunks: Sequence[Chunk]) -> tuple[int, int]:
    """Pad rows before and after a chunk in its pass; empty slots of tiles are none."""
    return 0, 0


def split_rows(chunks: Sequence[Chunk], rows: Tensor) -> list[Tensor]:
    """The rows of each chunk, of those of a whole pass."""
    stops = list(accumulate(chunk.rows for chunk in chunks))
    return [rows[stop - chunk.rows : stop] for chunk, stop in zip(chunks, stops, strict=True)]


def pad_rows(rows: Tensor, before: int, after: int) -> Tensor:
    """Zero rows around *rows* [n, ...]."""
    shape = rows.shape[1:]
    return torch.cat([rows.new_zeros(before, *shape), rows, rows.new_zeros(after, *shape)])


def map_rows(
    function: RowFunction,
    choose: MatmulChoice,
    chunks: Sequence[Chunk],
    tensors: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """Applies *function* tile by tile to the rows of *chunks*.

    Args:
        tensors: Each [rows of all chunks, ...], in the order of *chunks*.
    """
    pieces = []
    for chunk, *rows in zip(chunks, *(split_rows(chunks, t) for t in tensors), strict=True):
        before, after = pads_of(chunk.start, chunk.stop)
        padded = [pad_rows(r, before, after) for r in rows]
        matmul = choose(chunk.rows)
        tiles = [
            function(matmul, *(p[at : at + TILE] for p in padded))
            for at in range(0, before + chunk.rows + after, TILE)
        ]
        whole = [torch.cat(column) for column in zip(*tiles, strict=True)]
        pieces.append([w[before : before + chunk.rows] for w in whole])
    return tuple(torch.cat(column) for column in zip(*pieces, strict=True))


def tiled(rows: Tensor, weight: Tensor) -> Tensor:
    """One product over the whole reduction."""
    return rows @ weight


def wide(rows: Tensor, weight: Tensor) -> Tensor:
    """As `tiled`; the kernel for many rows."""
    return rows @ weight


def split_k(rows: Tensor, weight: Tensor) -> Tensor:
    """Two halves of the reduction, summed; the kernel for few rows."""
    half = weight.shape[0] // 2
    return (
        rows[:, :half].contiguous() @ weight[:half] + rows[:, half:].contiguous() @ weight[half:]
    )


def always_tiled(rows: int) -> Matmul:
    """The same kernel whatever the number of rows."""
    return tiled


def by_rows(wide_rows: int) -> MatmulChoice:
    """A kernel for few rows and one for many: their bits differ."""
    return lambda rows: wide if rows >= wide_rows else split_k
