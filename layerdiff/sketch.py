"""Sketches: 5 float32 that tell how far apart two rows are, where digests only say that they are.

Fixed, and defined without a language. A row of n elements, each converted to float32 (complex as
real, imaginary), has the sketch ``(norm, p0, p1, p2, p3)``:

* norm: the Euclidean norm;
* ``p_k = sum over i of a(i // 97) * r_k(i % 97) * x_i``, projections on signs +1 and -1:
  ``a(j)`` is the Rudin-Shapiro sequence, -1 where j in binary holds an odd number of (overlapping)
  pairs 11; ``r_k(l)`` is -1 where bit k of XXH3-64 (seed 0) of l, as 8 little-endian bytes, is set.

97 is a prime, so that what repeats per head or per power of two does not meet itself in one lane,
and the Rudin-Shapiro sequence neither adds up nor cancels over smooth differences. The signs of a
row are a product, so all four projections read it once, as 97 lanes.

Lanes are summed in float32, what follows in float64, rounded once: a row's sketch does not depend
on the other rows of a call, and a relative change of 1e-6 shows. Other orders of summation, as of
another library or thread count, differ by less than `FLOOR`.
"""

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
_TINY: Final = 1e-30
"""Below this a float32 sum of squares has lost bits to underflow."""
_UNBIASED: Final = 1.1448
"""exp((log 2 - psi(2)) / 2): makes the logarithm of the estimate unbiased for 4 projections."""


class Sketcher:
    """Sketches a number of rows that come in blocks.

    Args:
        count: rows in all.
        width: elements of a row; may be 0.
    """

    def __init__(self, count: int, width: int) -> None:
        self._squares = np.empty(count, np.float32)
        self._lanes = np.empty((count, min(width, _LANES)), np.float32)
        self._signs = _chunk_signs(-(-width // _LANES))

    def add(self, first: int, values: Values) -> None:
        """Takes rows *first* on: f4 [n, width], each contiguous."""
        last = first + len(values)
        squares = self._squares[first:last, None, None]
        np.matmul(values[:, None, :], values[:, :, None], out=squares)
        _sum_lanes(values, self._signs, out=self._lanes[first:last])

    def sketches(self) -> Sketches:
        """All rows' sketches, f4 [count, 5], but for those that `beyond` names."""
        result = np.empty((len(self._squares), WIDTH), np.float32)
        np.sqrt(self._squares, out=result[:, 0])
        lanes = self._lanes.astype(np.float64)
        result[:, 1:] = np.matmul(lanes, _lane_signs()[: lanes.shape[1]])
        return result

    def beyond(self) -> npt.NDArray[np.intp]:
        """The rows that need `sketch_exactly`: their squares leave the range of float32."""
        squares = self._squares
        if not squares.size or (squares.min() > _TINY and squares.max() < np.inf):
            return np.empty(0, np.intp)
        return np.flatnonzero(~((squares > _TINY) & (squares < np.inf)))


def sketch_exactly(values: Values) -> Sketches:
    """Sketches by way of float64: f4 [n, 5] of f4 [n, width]; not finite where a row is not."""
    wide = values.astype(np.float64)
    lanes = np.empty((len(wide), min(wide.shape[1], _LANES)))
    _sum_lanes(wide, _chunk_signs(-(-wide.shape[1] // _LANES)).astype(np.float64), out=lanes)
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    projections = np.matmul(lanes, _lane_signs()[: lanes.shape[1]])
    return np.column_stack([norms, projections]).astype(np.float32)


def sketch_rows(values: Values) -> Sketches:
    """One sketch per row.

    Args:
        values: f4 [n, width], each row contiguous; the width may be 0.

    Returns:
        f4 [n, 5]: norm and 4 projections; not finite where a row is not.
    """
    sketcher = Sketcher(*values.shape)
    with np.errstate(all="ignore"):
        sketcher.add(0, values)
        sketches = sketcher.sketches()
        beyond = sketcher.beyond()
        if beyond.size:
            sketches[beyond] = sketch_exactly(values[beyond])
    return sketches


def _sum_lanes(values: npt.NDArray[Any], signs: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """Adds up each row's chunks of 97 elements under the chunks' signs, into *out* [n, lanes]."""
    count, width = values.shape
    chunks, rest = divmod(width, _LANES)
    if not chunks:
        out[...] = values
        return
    whole = width - rest
    folded = values[:, :whole].reshape(count, chunks, _LANES)
    np.matmul(signs[None, :chunks], folded, out=out[:, None, :])
    if rest:
        accumulate = np.add if signs[-1] > 0 else np.subtract
        accumulate(out[:, :rest], values[:, whole:], out=out[:, :rest])


@lru_cache(maxsize=1)
def _lane_signs() -> npt.NDArray[np.float64]:
    """r_k(l): f8 [97, 4]."""
    hashes = [xxh3_64_intdigest(lane.to_bytes(8, "little")) for lane in range(_LANES)]
    bits = [[value >> k & 1 for k in range(_PROJECTIONS)] for value in hashes]
    return 1.0 - 2.0 * np.array(bits, np.float64)


@lru_cache(maxsize=1024)
def _chunk_signs(count: int) -> npt.NDArray[np.float32]:
    """a(j): f4 [count]."""
    pairs = [(j & j >> 1).bit_count() & 1 for j in range(count)]
    return (1.0 - 2.0 * np.array(pairs, np.float64)).astype(np.float32)


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
