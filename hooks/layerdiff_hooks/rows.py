"""From a torch tensor to the digests and sketches of its rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from layerdiff.digest import Digests, element_digests, finalise, row_digests, zero_digest
from layerdiff.sketch import WIDTH, Sketcher, Sketches, Values, sketch_exactly

Bits: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]

_BLOCK_BYTES: Final = 1 << 18
"""Float32 values converted at a time: they are read twice more while they lie in the L2 cache."""
_BITS: Final = {
    1: (torch.uint8, "<u1"),
    2: (torch.int16, "<u2"),
    4: (torch.int32, "<u4"),
    8: (torch.int64, "<u8"),
    16: (torch.int64, "<u8"),
}
"""By bytes per element: the integers that share its memory, in torch and in NumPy."""
_LARGEST_NUMBER: Final = {torch.bfloat16: (0x7F80, 0xFF80), torch.float16: (0x7C00, 0xFC00)}
"""The bits of the infinities: what lies above, in either sign, is NaN."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """What a tensor [rows, parts, *shape] is reduced to."""

    digests: Digests
    """u8 [rows, parts]."""
    sketches: Sketches | None
    """f4 [rows, parts, 5]: `layerdiff.sketch`; None when not asked for."""
    nan_count: int
    """Elements that are NaN, over all rows; a complex element counts for each of its two parts."""
    all_zero: bool
    """Whether there are bits, and all of them are zero."""
    dtype: str
    """Torch's name without ``torch.``."""
    shape: tuple[int, ...]
    """The shape of one part of one row."""
    elements: Digests | None
    """u8 [parts]: order-free digests over all rows; None when not asked for."""


class _Source(NamedTuple):
    """A tensor [rows, parts, *shape] on the CPU, contiguous, without autograd."""

    tensor: torch.Tensor
    bits: Bits
    """[rows * parts, words]: the same memory."""
    dtype: str
    shape: tuple[int, ...]


def digest_rows(
    tensor: torch.Tensor | npt.NDArray[Any],
    *,
    key: bytes | None = None,
    sketch: bool = True,
    elements: bool = False,
) -> RowBlock:
    """Reduces a tensor to one digest and one sketch per row and part.

    The tensor is only read: not its bits, not its version, nor any graph or random state changes.

    Args:
        tensor: [rows, parts, *shape], of any strides, device and dtype.
        key: what `layerdiff.digest.derive_key` gave; finalises digests and elements.
        sketch: whether to sketch as well.
        elements: whether to take the order-free digest of each part as well.
    """
    source = _source(tensor)
    rows, parts = source.tensor.shape[:2]
    raw = source.bits.view(np.uint8)
    digests = row_digests(raw, source.dtype, source.shape)
    sketches = _sketches(source) if sketch else None
    return RowBlock(
        digests=finalise(digests, key).reshape(rows, parts),
        sketches=None if sketches is None else sketches.reshape(rows, parts, WIDTH),
        nan_count=_nan_count(source, sketches),
        all_zero=_all_zero(source, digests),
        dtype=source.dtype,
        shape=source.shape,
        elements=_elements(source, key) if elements else None,
    )


def digest_elements(
    tensor: torch.Tensor | npt.NDArray[Any], *, key: bytes | None = None
) -> Digests:
    """The order-free digest of each part, alone: u8 [parts] of a tensor [rows, parts, *shape]."""
    return _elements(_source(tensor), key)


def _source(tensor: torch.Tensor | npt.NDArray[Any]) -> _Source:
    """The tensor where its bytes can be read, copied only where that takes a copy."""
    plain = _from_numpy(tensor) if isinstance(tensor, np.ndarray) else tensor.detach()
    plain = plain.resolve_conj().resolve_neg().cpu().contiguous()
    rows, parts, *shape = plain.shape
    words, unsigned = _BITS[plain.itemsize]
    bits = plain.view(words).numpy().view(unsigned)
    count = rows * parts
    bits = bits.reshape(count, bits.size // count if count else 0)
    return _Source(plain, bits, _dtype_name(plain.dtype), tuple(shape))


@lru_cache(maxsize=128)
def _dtype_name(dtype: torch.dtype) -> str:
    """Torch's name without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def _from_numpy(array: npt.NDArray[Any]) -> torch.Tensor:
    """The array as a tensor: in native byte order, and copied where torch may not share it."""
    native = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _sketches(source: _Source) -> Sketches:
    """f4 [rows * parts, 5]."""
    values = _flat(source)
    sketcher = Sketcher(*values.shape)
    with np.errstate(all="ignore"):
        for first, block in _float_blocks(values):
            sketcher.add(first, block)
        sketches = sketcher.sketches()
        beyond = sketcher.beyond()
        if beyond.size:
            for first, block in _float_blocks(values[torch.from_numpy(beyond)]):
                sketches[beyond[first : first + len(block)]] = sketch_exactly(block)
    return sketches


def _flat(source: _Source) -> torch.Tensor:
    """The values as [rows * parts, width], complex elements as two."""
    tensor = source.tensor
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    count = len(source.bits)
    return tensor.view(count, tensor.numel() // count if count else 0)


def _float_blocks(values: torch.Tensor) -> Iterator[tuple[int, Values]]:
    """Rows [n, width] as float32, block by block, each valid until the next is asked for."""
    count, width = values.shape
    height = max(1, _BLOCK_BYTES // max(4 * width, 1))
    if values.dtype is torch.float32 or count <= height:
        floats = values.float().numpy()
        for first in range(0, count, height):
            yield first, floats[first : first + height]
        return
    buffer = torch.empty(height, width, dtype=torch.float32, device="cpu")
    floats = buffer.numpy()
    for first in range(0, count, height):
        n = min(height, count - first)
        buffer[:n].copy_(values[first : first + n])
        yield first, floats[:n]


def _nan_count(source: _Source, sketches: Sketches | None) -> int:
    """How many elements are NaN: exact, counted only where nothing cheaper rules them out."""
    if not (source.tensor.is_floating_point() or source.tensor.is_complex()):
        return 0
    if not source.bits.size or _is_nan_free(source, sketches):
        return 0
    return sum(int(np.isnan(block).sum()) for _, block in _float_blocks(_flat(source)))


def _is_nan_free(source: _Source, sketches: Sketches | None) -> bool:
    """Whether there is surely no NaN: finite norms, a finite sum, or no bits that high."""
    if sketches is not None:
        return bool(sketches[:, 0].max() < np.inf)
    largest = _LARGEST_NUMBER.get(source.tensor.dtype)
    if largest is None:
        return bool(source.tensor.sum().isfinite())
    positive, negative = largest
    bits = source.bits
    return bool(bits.view(np.int16).max() <= positive and bits.max() <= negative)


def _all_zero(source: _Source, digests: Digests) -> bool:
    """Whether there are bits and none is set; digests rule it out before the bits are read."""
    if not source.bits.size or digests[0] != zero_digest(source.dtype, source.shape):
        return False
    return not source.bits.any()


def _elements(source: _Source, key: bytes | None) -> Digests:
    """u8 [parts]: each part's elements over all rows."""
    rows, parts = source.tensor.shape[:2]
    words = source.bits.shape[1]
    bits = source.bits.reshape(rows, parts, words).transpose(1, 0, 2).reshape(parts, rows * words)
    return finalise(element_digests(bits), key)
