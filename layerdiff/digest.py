"""Digests: 64 bits that stand for one row or state, for its order, its elements, its prefix.

Every digest is unsigned, 64 bits wide, and defined on little-endian bytes, so that an engine in
any language can compute it (``xxh3`` is XXH3-64 with seed 0, sums wrap at 2**64):

* row: ``xxh3(raw bytes, logical element order) XOR xxh3("<dtype>:<shape>")``, where the second
  text is ASCII such as ``bfloat16:2,16``; the shape is that of the row, without row and part axes;
* root: ``xxh3`` of the row digests, 8 bytes each, in row order;
* multiset of rows: sum of the row digests (order of rows does not matter);
* elements: sum over all elements of ``mix64(bits)``, the bits zero-extended to 64 (order of
  elements does not matter; complex counts as two elements), where mix64 is the output of
  SplitMix64: ``x += 9e3779b97f4a7c15; x ^= x >> 30; x *= bf58476d1ce4e5b9; x ^= x >> 27;
  x *= 94d049bb133111eb; x ^= x >> 31``;
* chain of a token: ``xxh3(le64(chain before) + le64(token))``, starting at `CHAIN_START`;
* with a key: ``blake2b(8 bytes, digest_size=8, key=blake2b(key file, digest_size=32))`` of each
  row, elements or chain digest. Roots and multisets are taken over row digests that are already
  keyed; a keyed elements digest no longer adds up over parts of a request.

Bits are hashed, not values: 0.0 and -0.0, or two NaN payloads, differ. Two swapped elements
change the row digest and leave the elements digest as it is. 64 bits tell accidents apart, not
an adversary; and without a key, digests of embeddings reveal the prompt to whoever has the model.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_digest, xxh3_64_intdigest

Digests: TypeAlias = npt.NDArray[np.uint64]

CHAIN_START: Final = xxh3_64_intdigest(b"layerdiff.chain")
"""The chain digest before the first token."""

_MIX_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SECOND: Final = np.uint64(0x94D049BB133111EB)
_MIX_BLOCK: Final = 16384
"""Elements mixed at a time: 64-bit temporaries of this many stay in the L2 cache."""

_DIGEST_BYTES: Final = 8
_LITTLE_ENDIAN: Final = np.dtype("<u8")
_KEY_BYTES: Final = 32


def derive_key(file_bytes: bytes) -> bytes:
    """The 32-byte key that a key file stands for."""
    return hashlib.blake2b(file_bytes, digest_size=_KEY_BYTES).digest()


def finalise(digests: Digests, key: bytes | None) -> Digests:
    """The digests as they are stored: keyed hashes of *digests*, or *digests* without a key.

    Args:
        digests: u8 of any shape, unkeyed.
        key: what `derive_key` gave.
    """
    if key is None:
        return digests
    raw = np.ascontiguousarray(digests, dtype="<u8").tobytes()
    # Copying a keyed state is half the price of absorbing the key for each digest.
    start = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=key)
    keyed = bytearray()
    for first in range(0, len(raw), _DIGEST_BYTES):
        state = start.copy()
        state.update(raw[first : first + _DIGEST_BYTES])
        keyed += state.digest()
    return np.frombuffer(keyed, dtype="<u8").reshape(digests.shape).astype(np.uint64, copy=False)


def row_digests(
    rows: npt.NDArray[np.integer[Any]],
    dtype: str,
    shape: tuple[int, ...],
    key: bytes | None = None,
) -> Digests:
    """One digest per row.

    Args:
        rows: the rows' bytes, C-contiguous: u1 [n, nbytes], or wider integers [n, words] in
            little-endian order; rows may be empty.
        dtype: torch's name without ``torch.``, such as ``bfloat16``.
        shape: the shape of one row, such as ``(2, 16)``.
        key: what `derive_key` gave.

    Returns:
        u8 [n].
    """
    salt = row_salt(dtype, shape)
    if len(rows) == 1:
        digests = np.array([xxh3_64_intdigest(rows.data) ^ salt], np.uint64)
    elif rows.size:
        digests = np.fromiter(map(xxh3_64_intdigest, rows), np.uint64, len(rows))
        digests ^= np.uint64(salt)
    else:
        digests = np.full(len(rows), xxh3_64_intdigest(b"") ^ salt, np.uint64)
    return finalise(digests, key)


def few_digests(data: bytes, count: int, dtype: str, shape: tuple[int, ...]) -> list[int]:
    """The unkeyed digests of *count* rows of at least a byte each, without the price of arrays.

    Args:
        data: the rows' bytes, one after the other.
        count: how many rows.
        dtype: torch's name without ``torch.``.
        shape: the shape of one row.
    """
    salt = row_salt(dtype, shape)
    if count == 1:
        return [xxh3_64_intdigest(data) ^ salt]
    width = len(data) // count
    view = memoryview(data)
    starts = range(0, len(data), width)
    return [xxh3_64_intdigest(view[start : start + width]) ^ salt for start in starts]


@lru_cache(maxsize=4096)
def row_salt(dtype: str, shape: tuple[int, ...]) -> int:
    """What dtype and row shape add to a row's digest, by XOR."""
    return xxh3_64_intdigest(f"{dtype}:{','.join(map(str, shape))}".encode())


@lru_cache(maxsize=256)
def zero_digest(dtype: str, shape: tuple[int, ...], key: bytes | None = None) -> int:
    """The digest of a row whose bits are all zero (so no -0.0), to recognise an empty state."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * item_bytes(dtype)
    return int(row_digests(np.zeros((1, nbytes), np.uint8), dtype, shape, key)[0])


def item_bytes(dtype: str) -> int:
    """Bytes per element of a dtype by torch's name; bool and 8-bit types are 1.

    Raises:
        ValueError: The name says no width.
    """
    if dtype == "bool":
        return 1
    digits = "".join(c if c.isdigit() else " " for c in dtype).split()
    bits = int(digits[0]) if digits else 0
    if bits < 8 or bits % 8:
        raise ValueError(f"dtype {dtype!r} has no whole number of bytes per element")
    return bits // 8


def root_digest(digests: Digests) -> int:
    """One digest for all rows of an observation, in row order.

    Args:
        digests: u8 of any shape, C order: rows, then parts; already keyed, if at all.
    """
    return xxh3_64_intdigest(np.ascontiguousarray(digests, dtype=_LITTLE_ENDIAN).data)


def multiset_digest(digests: Digests) -> int:
    """The sum of *digests* mod 2**64: equal for the same rows in any order, additive."""
    return int(np.sum(digests, dtype=np.uint64))


def element_digests(bits: npt.NDArray[np.unsignedinteger[Any]]) -> Digests:
    """One unkeyed digest per part that does not depend on the order of its elements.

    Args:
        bits: unsigned integers of 1, 2, 4 or 8 bytes [parts, n], any strides.

    Returns:
        u8 [parts]; adds up mod 2**64 over disjoint sets of elements, 0 for none.
    """
    parts, count = bits.shape
    sums = np.zeros(parts, np.uint64)
    columns = min(count, _MIX_BLOCK)
    height = _MIX_BLOCK // max(columns, 1)
    for top in range(0, parts if count else 0, height):
        for left in range(0, count, columns):
            block = bits[top : top + height, left : left + columns]
            sums[top : top + height] += _mixed(block).sum(axis=1)
    return sums


def _mixed(bits: npt.NDArray[np.unsignedinteger[Any]]) -> Digests:
    """mix64 of each element: looked up where the dtype has few values, else computed."""
    if bits.itemsize <= 2:
        # Without a mode np.take copies its output once more; no index is out of range here.
        return np.take(_mix_table(bits.itemsize), bits, mode="clip")
    return _mix64(bits.astype(np.uint64))


def _mix64(values: Digests) -> Digests:
    """mix64 of each value, in place."""
    values += _MIX_STEP
    values ^= values >> np.uint64(30)
    values *= _MIX_FIRST
    values ^= values >> np.uint64(27)
    values *= _MIX_SECOND
    values ^= values >> np.uint64(31)
    return values


@lru_cache(maxsize=2)
def _mix_table(item_bytes: int) -> Digests:
    """mix64 of every value of *item_bytes* bytes."""
    table = _mix64(np.arange(1 << 8 * item_bytes, dtype=np.uint64))
    table.flags.writeable = False
    return table


def chain_tokens(previous: int, tokens: Iterable[int]) -> Digests:
    """The unkeyed chain digests of consecutive tokens.

    Args:
        previous: the unkeyed chain digest before the first of *tokens*, or `CHAIN_START`.
        tokens: token ids, signed 64-bit.

    Returns:
        u8 [n]: element i stands for the whole prefix up to and with token i.
    """
    chain = previous.to_bytes(8, "little")
    chained = bytearray()
    for token in tokens:
        # xxhash's digest bytes are big-endian, the canonical form.
        chain = xxh3_64_digest(chain + int(token).to_bytes(8, "little", signed=True))[::-1]
        chained += chain
    return np.frombuffer(chained, dtype="<u8").astype(np.uint64, copy=False)
