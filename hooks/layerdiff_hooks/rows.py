"""From a torch tensor to the digests and sketches of its rows."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from layerdiff.digest import Digests, element_digests, finalise, row_digests, zero_digest
from layerdiff.sketch import WIDTH, Sketches, Values, sketch_blocks, sketch_exactly, sketch_rows

_BLOCK_BYTES: Final = 1 << 21
"""Float32 values converted at a time: few calls, and still in the cache when read again."""
WORDS: Final = {
    1: torch.uint8,
    2: torch.int16,
    4: torch.int32,
    8: torch.int64,
    16: torch.int64,
}
"""By bytes per element: an integer dtype that shares its memory and that NumPy knows."""
_INFINITY: Final = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00}
"""Its bits, but for the sign: whatever lies above is NaN."""
_SIGN: Final = 0x8000
_REAL: Final = {
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.complex64: np.float32,
    torch.complex128: np.float64,
}
"""Dtypes whose elements, or their two parts, NumPy knows as floats."""


class Copied(NamedTuple):
    """The bytes of a few rows, to be sketched with others of their dtype and width."""

    dtype: torch.dtype
    rows: int
    """Rows times parts."""
    data: bytes


class RowBlock(NamedTuple):
    """What a tensor [rows, parts, *shape] is reduced to."""

    digests: Digests
    """u8 [rows, parts]."""
    sketches: Sketches | None
    """f4 [rows, parts, 5]: `layerdiff.sketch`; None when not asked for, or not yet taken."""
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
    copied: Copied | None = None
    """What `sketch_copied` makes sketches and the NaN count of; None where both are here."""


class _Source(NamedTuple):
    """A tensor [rows, parts, *shape] on the CPU, contiguous, without autograd."""

    tensor: torch.Tensor
    """Its first two axes may be those of a grid of rows."""
    rows: int
    parts: int
    words: npt.NDArray[np.integer[Any]]
    """[rows * parts, n]: the same memory, as integers."""
    dtype: str
    shape: tuple[int, ...]


def digest_rows(
    tensor: torch.Tensor | npt.NDArray[Any],
    *,
    key: bytes | None = None,
    sketch: bool = True,
    elements: bool = False,
    grid: bool = False,
) -> RowBlock:
    """Reduces a tensor to one digest and one sketch per row and part.

    The tensor is only read: not its bits, not its version, nor any graph or random state changes.

    Args:
        tensor: [rows, parts, *shape], of any strides, device and dtype.
        key: what `layerdiff.digest.derive_key` gave; finalises digests and elements.
        sketch: whether to sketch as well.
        elements: whether to take the order-free digest of each part as well.
        grid: whether the first two axes are both of rows, each of one part.
    """
    source = _source(tensor, grid=grid)
    digests, sketches = _reduce(source) if sketch else (_hashed(source, source.words), None)
    rows, parts = source.rows, source.parts
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
    tensor: torch.Tensor | npt.NDArray[Any], *, key: bytes | None = None, grid: bool = False
) -> Digests:
    """The order-free digest of each part, alone: u8 [parts] of what `digest_rows` takes."""
    return _elements(_source(tensor, grid=grid), key)


def plain_tensor(plain: torch.Tensor) -> torch.Tensor:
    """The tensor where its bytes can be read, copied only where that takes a copy."""
    # Asking first is cheaper than the call that does nothing: decode passes feel the difference.
    if plain.requires_grad:
        plain = plain.detach()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if not plain.is_cpu:
        plain = plain.cpu()
    return plain


def _source(tensor: torch.Tensor | npt.NDArray[Any], *, grid: bool = False) -> _Source:
    """The tensor and its words; contiguous, which may take a copy."""
    plain = plain_tensor(_from_numpy(tensor) if isinstance(tensor, np.ndarray) else tensor)
    if not plain.is_contiguous():
        plain = plain.contiguous()
    rows, parts, *shape = plain.shape
    if grid:
        rows, parts = rows * parts, 1
    count = rows * parts
    words = plain.view(WORDS[plain.itemsize]).numpy()
    words = words.reshape(count, words.size // count if count else 0)
    return _Source(plain, rows, parts, words, dtype_name(plain.dtype), tuple(shape))


@lru_cache(maxsize=128)
def dtype_name(dtype: torch.dtype) -> str:
    """Torch's name without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def _from_numpy(array: npt.NDArray[Any]) -> torch.Tensor:
    """The array as a tensor: in native byte order, and copied where torch may not share it."""
    native = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    return torch.from_numpy(native if native.flags.writeable else native.copy())


def _hashed(source: _Source, words: npt.NDArray[np.integer[Any]]) -> Digests:
    """u8 [n]: the unkeyed digests of some of the rows."""
    return row_digests(words, source.dtype, source.shape)


def _reduce(source: _Source) -> tuple[Digests, Sketches]:
    """u8 [rows * parts], unkeyed, and f4 [rows * parts, 5]."""
    if 4 * source.words.size <= _BLOCK_BYTES:
        return _hashed(source, source.words), sketch_rows(_floats(source))
    values = _flat(source)
    height = _height(values)
    digests = np.empty(len(values), np.uint64)

    def hashed_blocks() -> Iterator[Values]:
        # A block is hashed right before it is sketched, which then finds it in the cache.
        first = 0
        for block in _float_blocks(values, height):
            rows = slice(first, first + height)
            digests[rows] = _hashed(source, source.words[rows])
            yield block
            first += height

    sketches, beyond = sketch_blocks(hashed_blocks(), len(values))
    if beyond.size:
        picked = _float_blocks(values[torch.from_numpy(beyond)], height)
        sketches[beyond] = np.concatenate([sketch_exactly(block) for block in picked])
    return digests, sketches


def _flat(source: _Source) -> torch.Tensor:
    """The values as [rows * parts, width], complex elements as two."""
    tensor = source.tensor
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    count = len(source.words)
    return tensor.view(count, tensor.numel() // count if count else 0)


def _height(values: torch.Tensor) -> int:
    """Rows to a block."""
    return max(1, _BLOCK_BYTES // max(4 * values.shape[1], 1))


def _floats(source: _Source) -> Values:
    """All rows as float32 [rows * parts, width], without torch where NumPy is enough."""
    if source.tensor.dtype in (torch.float32, torch.bfloat16):
        return quick_floats(source.words)
    return _flat(source).float().numpy()


def float_rows(tensor: torch.Tensor) -> Values:
    """The elements of [rows, parts, *shape] as float32, complex ones as two: f4 [n, width]."""
    return _floats(_source(tensor))


def quick_floats(words: npt.NDArray[np.integer[Any]]) -> Values:
    """Float32 values of the words of float32 (4 bytes) or of bfloat16 (2 bytes)."""
    if words.itemsize == 4:
        return words.view(np.float32)
    bits = words.astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def _float_blocks(values: torch.Tensor, height: int) -> Iterator[Values]:
    """Rows [n, width] as float32, *height* at a time, each valid until the next is asked for."""
    blocks = torch.split(values, height)
    if values.dtype is torch.float32:
        for block in blocks:
            yield block.numpy()
        return
    largest = min(height, len(values)), values.shape[1]
    buffer = torch.empty(largest, dtype=torch.float32, device="cpu")
    for block in blocks:
        yield buffer[: len(block)].copy_(block).numpy()


def _nan_count(source: _Source, sketches: Sketches | None) -> int:
    """How many elements are NaN: exact, counted only where nothing cheaper rules them out."""
    if not (source.tensor.is_floating_point() or source.tensor.is_complex()):
        return 0
    if not source.words.size or _is_nan_free(source, sketches):
        return 0
    values = _flat(source)
    blocks = _float_blocks(values, _height(values))
    return sum(int(np.isnan(block).sum()) for block in blocks)


def _is_nan_free(source: _Source, sketches: Sketches | None) -> bool:
    """Whether there is surely no NaN: finite norms, no bits that high, or a finite product."""
    if sketches is not None:
        return bool(sketches[:, 0].max() < np.inf)
    dtype, words = source.tensor.dtype, source.words
    if dtype in _REAL:
        floats = words.view(_REAL[dtype])
        return bool(np.vdot(floats, floats) < np.inf)
    infinity = _INFINITY.get(dtype)
    if infinity is None:
        return False
    return bool(words.max() <= infinity and words.view(np.uint16).max() <= infinity | _SIGN)


def _all_zero(source: _Source, digests: Digests) -> bool:
    """Whether there are bits and none is set; digests rule it out before the bits are read."""
    if not source.words.size or digests[0] != zero_digest(source.dtype, source.shape):
        return False
    return not source.words.any()


def _elements(source: _Source, key: bytes | None) -> Digests:
    """u8 [parts]: each part's elements over all rows."""
    rows, parts = source.rows, source.parts
    width = source.tensor.itemsize // (2 if source.tensor.is_complex() else 1)
    bits = source.words.view(f"<u{width}")
    of_a_row = bits.shape[1]
    bits = bits.reshape(rows, parts, of_a_row).transpose(1, 0, 2)
    return finalise(element_digests(bits.reshape(parts, rows * of_a_row)), key)
