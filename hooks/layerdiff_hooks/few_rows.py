"""A few rows, which decode passes are made of: hashed at once, sketched with others of their pass.

Calls cost more than the work here. So a hook copies the bytes, hashes the copy and is done; when
the pass ends, all copies of one dtype and width become one array, and that is sketched. A row's
sketch does not depend on the rows beside it, so nobody can tell.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from layerdiff.digest import few_digests, finalise, zero_digest
from layerdiff.sketch import WIDTH, Sketches, Values, sketch_rows
from layerdiff_hooks.rows import (
    WORDS,
    Copied,
    RowBlock,
    digest_elements,
    dtype_name,
    float_rows,
    quick_floats,
)

_FEW_BYTES: Final = 1 << 15
"""Beyond that the work costs more than the calls, and copies would pile up."""
_NUMPY: Final = {
    *(torch.float32, torch.float16, torch.float64),
    *(torch.complex64, torch.complex128),
}
"""Dtypes that need no view for NumPy to read them."""
_QUICK: Final = {torch.float32: np.int32, torch.bfloat16: np.int16}
"""The words that `quick_floats` knows."""

Form: TypeAlias = tuple[torch.dtype, int]
"""Dtype and bytes of a row."""


def are_few(plain: torch.Tensor) -> bool:
    """Whether `digest_few` is the cheaper way."""
    return 0 < plain.nbytes <= _FEW_BYTES


def digest_few(
    plain: torch.Tensor, *, key: bytes | None, elements: bool = False, grid: bool = False
) -> RowBlock:
    """Reduces a tensor as `digest_rows` does, but for what `sketch_copied` adds later.

    Args:
        plain: [rows, parts, *shape] or a grid, as `plain_tensor` gave it.
        key: as for `digest_rows`.
        elements: as for `digest_rows`.
        grid: as for `digest_rows`.
    """
    rows, parts, *rest = plain.shape
    if grid:
        rows, parts = rows * parts, 1
    dtype, shape = plain.dtype, tuple(rest)
    readable = plain if dtype in _NUMPY else plain.view(WORDS[plain.itemsize])
    data = readable.numpy().tobytes()
    name = dtype_name(dtype)
    digests = few_digests(data, rows * parts, name, shape)
    return RowBlock(
        digests=finalise(np.array(digests, np.uint64), key).reshape(rows, parts),
        sketches=None,
        nan_count=0,
        all_zero=digests[0] == zero_digest(name, shape) and data.count(0) == len(data),
        dtype=name,
        shape=shape,
        elements=digest_elements(plain, key=key, grid=grid) if elements else None,
        copied=Copied(dtype, rows * parts, data),
    )


def sketch_copied(blocks: Sequence[Copied], *, sketch: bool) -> tuple[Sketches, list[int]]:
    """Sketches and NaN counts of the blocks of one pass.

    Args:
        blocks: Of any dtypes and widths.
        sketch: Whether sketches are wanted; without, there are none in what is returned.

    Returns:
        f4 [rows of all blocks in their order, 5], and the NaN count of each block.
    """
    ends = list(accumulate([block.rows for block in blocks]))
    sketches = np.empty((ends[-1] if sketch and ends else 0, WIDTH), np.float32)
    nan_counts = [0] * len(blocks)
    for (dtype, _), indices in _alike(blocks).items():
        values = _joined([blocks[index] for index in indices], dtype)
        if sketch:
            places = [n for i in indices for n in range(ends[i] - blocks[i].rows, ends[i])]
            sketches[places] = found = sketch_rows(values)
            if found[:, 0].max() < np.inf:
                continue
        if dtype.is_floating_point or dtype.is_complex:
            _count_nans(values, blocks, indices, nan_counts)
    return sketches, nan_counts


def _alike(blocks: Sequence[Copied]) -> dict[Form, list[int]]:
    """The blocks that can be joined."""
    alike: dict[Form, list[int]] = {}
    for index, (dtype, count, data) in enumerate(blocks):
        alike.setdefault((dtype, len(data) // count), []).append(index)
    return alike


def _joined(blocks: Sequence[Copied], dtype: torch.dtype) -> Values:
    """The rows of blocks of one form: f4 [rows, width]."""
    data = bytearray().join([block.data for block in blocks])
    count = sum([block.rows for block in blocks])
    if dtype in _QUICK:
        words: npt.NDArray[np.integer[Any]] = np.frombuffer(data, _QUICK[dtype])
        return quick_floats(words.reshape(count, -1))
    return float_rows(torch.frombuffer(data, dtype=dtype).view(count, 1, -1))


def _count_nans(
    values: Values, blocks: Sequence[Copied], indices: Sequence[int], counts: list[int]
) -> None:
    """Sets the NaN counts of the blocks that *values* are the rows of."""
    of_rows = np.isnan(values).sum(axis=1)
    first = 0
    for index in indices:
        last = first + blocks[index].rows
        counts[index] = int(of_rows[first:last].sum())
        first = last
