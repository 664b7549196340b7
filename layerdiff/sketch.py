"""Sketches: 5 float32 that tell how far apart two rows are, where digests only say that they are.

Fixed, and defined without a language. A row of n elements, each converted to float32 (complex as
real, imaginary), has the sketch ``(norm, p0, p1, p2, p3)``:

* norm: the Euclidean norm;
* ``p_k = sum over i of a(i // 97) * r_k(i % 97) * x_i``, projections on signs +1 and -1:
  ``a(j)`` is the Rudin-Shapiro sequence: -1 where j, in binary, holds an odd number of pairs 11,
  overlapping ones counted; ``r_k(l)`` is -1 where bit k of XXH3-64 (seed 0) of l, as 8
  little-endian bytes, is set.

97 is a prime, so that what repeats per head or per power of two does not meet itself in one lane,
and the Rudin-Shapiro sequence neither adds up nor cancels over smooth differences. The signs of a
row are a product, so all four projections read it once, as 97 lanes.

Lanes are summed in float32, what follows in float64, rounded once: a row's sketch does not depend
on the other rows of a call, and a relative change of 1e-6 shows. Other orders of summation, as of
another library or thread count, differ by less than `FLOOR`.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

Sketches: TypeAlias = npt.NDArray[np.float32]
Values: TypeAlias = npt.NDArray[np.float32]

WIDTH: Final = 5
"""Floats per sketch."""
FLOOR: Final = 3e-7
"""A relative distance below this is the sketch's own rounding: other bits, no known size."""

_PROJECTIONS: Final = WIDTH - 1
_LANES: Final = 97
_TINY: Final = 1e-15
"""Below this norm the float32 sum of squares has lost bits to underflow."""
_NO_ROWS: Final = np.empty(0, np.intp)
_UNBIASED: Final = 1.1448
"""exp((log 2 - psi(2)) / 2): makes the logarithm of the estimate unbiased for 4 projections."""


def sketch_rows(values: Values) -> Sketches:
    """One sketch per row.

    Args:
        values: f4 [n, width], each row contiguous; the width may be 0.

    Returns:
        f4 [n, 5]: norm and 4 projections; not finite where a row is not.
    """
    if len(values) == 1:
        return _sketch_one(values)
    sketches, beyond = sketch_blocks([values], len(values))
    if beyond.size:
        sketches[beyond] = sketch_exactly(values[beyond])
    return sketches


def sketch_blocks(blocks: Iterable[Values], count: int) -> tuple[Sketches, npt.NDArray[np.intp]]:
    """Sketches rows that come in blocks, each of which is read before the next is asked for.

    Args:
        blocks: f4 [n, width], each row contiguous.
        count: rows in all.

    Returns:
        f4 [count, 5], and the indices of rows to replace by `sketch_exactly`: their squares leave
        the range of float32. Where there is none, every row is finite.
    """
    sketches = np.empty((count, WIDTH), np.float32)
    first = 0
    with np.errstate(all="ignore"):
        for values in blocks:
            last = first + len(values)
            squares = np.matmul(values[:, None, :], values[:, :, None])
            np.sqrt(squares[:, 0, 0], out=sketches[first:last, 0])
            sketches[first:last, 1:] = _projections(values)
            first = last
    return sketches, _beyond(sketches[:, 0])


def sketch_exactly(values: Values) -> Sketches:
    """Sketches by way of float64: f4 [n, 5] of f4 [n, width]; not finite where a row is not."""
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        return np.column_stack([norms, _projections(wide)]).astype(np.float32)


def _sketch_one(values: Values) -> Sketches:
    """The same bits as `sketch_blocks` gives, in half the calls: decode is made of these."""
    row = values[0]
    norm = math.sqrt(np.vdot(row, row))  # vdot alone does not warn of an overflow
    if not _TINY < norm < np.inf:
        return sketch_exactly(values)
    sketch = np.empty((1, WIDTH), np.float32)
    sketch[0, 0] = norm
    sketch[:, 1:] = _projections(values)
    return sketch


def _beyond(norms: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """The rows whose sum of squares was not finite, or so small that bits were lost."""
    if norms.size == 0 or (norms.min() > _TINY and norms.max() < np.inf):
        return _NO_ROWS
    return np.flatnonzero(~((norms > _TINY) & (norms < np.inf)))


def _projections(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """p0 to p3, not yet rounded: f8 [n, 4]."""
    lanes = _lane_sums(values).astype(np.float64)
    projections: npt.NDArray[np.float64] = np.matmul(lanes, _lane_signs(lanes.shape[1]))
    return projections


def _lane_sums(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each row's chunks of 97 elements, added up under the chunks' signs: [n, lanes]."""
    count, width = values.shape
    chunks, rest = divmod(width, _LANES)
    if not chunks:
        return values
    folded = values[:, : width - rest].reshape(count, chunks, _LANES)
    sums: npt.NDArray[Any] = np.matmul(_chunk_signs(chunks, values.dtype), folded)[:, 0]
    if rest:
        accumulate = np.add if _chunk_sign(chunks) > 0 else np.subtract
        lanes = sums[:, :rest]
        accumulate(lanes, values[:, width - rest :], out=lanes)
    return sums


@lru_cache(maxsize=_LANES + 1)
def _lane_signs(lanes: int) -> npt.NDArray[np.float64]:
    """r_k(l): f8 [lanes, 4]."""
    hashes = [xxh3_64_intdigest(lane.to_bytes(8, "little")) for lane in range(lanes)]
    bits = [[value >> k & 1 for k in range(_PROJECTIONS)] for value in hashes]
    return 1.0 - 2.0 * np.array(bits, np.float64).reshape(lanes, _PROJECTIONS)


@lru_cache(maxsize=1024)
def _chunk_signs(chunks: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """a(j) in a float dtype: [1, chunks]."""
    return np.array([[_chunk_sign(j) for j in range(chunks)]], dtype)


def _chunk_sign(j: int) -> int:
    """a(j)."""
    return -1 if (j & j >> 1).bit_count() % 2 else 1


def distance(baseline: npt.NDArray[Any], candidate: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Estimates ``|x - y| / |x|`` from the sketches of x and y.

    The mean square of the projections' differences estimates the squared distance; it is scaled to
    be unbiased in the logarithm, and kept between the difference and the sum of the norms. It is
    within a factor of 2 for about 92 of 100 pairs.

    Args:
        baseline: f4 [..., 5], of x.
        candidate: f4 [..., 5], of y.

    Returns:
        f8 [...]: 0 for equal sketches; below `FLOOR` it says only that rows are close; inf where
        x is zero or only one of the two is finite; nan where neither is finite.
    """
    x = np.asarray(baseline, np.float64)
    y = np.asarray(candidate, np.float64)
    norm_x, norm_y = x[..., 0], y[..., 0]
    with np.errstate(all="ignore"):
        estimate = _UNBIASED * np.sqrt(np.mean((x[..., 1:] - y[..., 1:]) ** 2, axis=-1))
        bounded = np.clip(estimate, np.abs(norm_x - norm_y), norm_x + norm_y)
        relative = bounded / norm_x
    finite_x, finite_y = np.isfinite(x).all(-1), np.isfinite(y).all(-1)
    relative = np.where(finite_x & finite_y, relative, np.inf)
    relative = np.where(finite_x | finite_y, relative, np.nan)
    same = ((x == y) | (np.isnan(x) & np.isnan(y))).all(-1)
    return np.where(same, 0.0, relative)
