"""The first 48 bytes of a dump, seen by HDF5 as those of a file that was closed well.

A dump is read while its recorder lives and after it was killed. HDF5's own reader for that case
waits without end where metadata is damaged, and reads zeros beyond the end of the file. So the
file is handed to HDF5 read-only with its superblock set right in memory: not being written, and
as long as it is or may become. The order in which a recorder flushes makes that safe.
"""

import io
import os
from typing import IO, Any, Final

from layerdiff.format.damage import Broken, CutShort, Damage

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_SIZE: Final = 48
_FLAGS: Final = 11
_END: Final = slice(28, 36)
_CHECKSUM: Final = slice(44, 48)
_WRITING: Final = 1
_SHARED: Final = 4
_GROWTH: Final = 1 << 30
"""What a recorder may append while its file is being opened."""
_MASK: Final = 0xFFFFFFFF


def read_superblock(file: IO[bytes]) -> bytes:
    """The superblock of an open file, after a look at everything it says.

    Raises:
        Damage: The file is no HDF5 file that could be a dump, or was cut short.
    """
    head = os.pread(file.fileno(), _SIZE, 0)
    size = os.fstat(file.fileno()).st_size
    if not head:
        raise Damage("the file is empty; record again")
    if not head.startswith(_SIGNATURE[: len(head)]):
        raise Damage("is no HDF5 file, so no dump; name a file that layerdiff recorded")
    if len(head) < _SIZE:
        raise Damage(f"was cut short: {size} bytes are left; copy or record it again")
    if head[8] not in (2, 3) or head[9:11] != b"\x08\x08" or head[12:20] != bytes(8):
        raise Damage("is an HDF5 file, but no dump; name a file that layerdiff recorded")
    if int.from_bytes(head[_CHECKSUM], "little") != lookup3(head[:44]):
        raise Broken("its first 48 bytes do not match their checksum")
    end = int.from_bytes(head[_END], "little")
    # A recorder that died or filled the disk may have promised more than it wrote.
    if end > size and not is_open_for_writing(head):
        raise Damage(f"was cut short: {size} of {end} bytes are left; copy or record it again")
    if head[_FLAGS] & _WRITING and not head[_FLAGS] & _SHARED:
        raise Damage("is just being made, or its recorder died at the start; record again")
    return head


def is_open_for_writing(superblock: bytes) -> bool:
    """Whether the recorder has not closed the file: it lives, or was killed."""
    return bool(superblock[_FLAGS] & _WRITING)


class ClosedView(io.RawIOBase):
    """An open file as HDF5 shall see it: read-only and not being written.

    Args:
        file: The file.
        superblock: What `read_superblock` gave.
    """

    def __init__(self, file: IO[bytes], superblock: bytes) -> None:
        super().__init__()
        self._descriptor: Final = file.fileno()
        self._size: Final = os.fstat(self._descriptor).st_size + (
            _GROWTH if is_open_for_writing(superblock) else 0
        )
        self._head: Final = _closed(superblock, self._size)
        self._place = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to *offset*; returns the new place."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        """The place."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* whole; HDF5 would take what is missing for zeros."""
        count = len(buffer)
        data = bytearray(os.pread(self._descriptor, count, self._place))
        if len(data) < count:
            raise CutShort
        if self._place < _SIZE:
            part = self._head[self._place : self._place + count]
            data[: len(part)] = part
        buffer[:] = data
        self._place += count
        return count


def _closed(superblock: bytes, size: int) -> bytes:
    head = bytearray(superblock)
    head[_FLAGS] = 0
    head[_END] = size.to_bytes(8, "little")
    head[_CHECKSUM] = lookup3(bytes(head[:44])).to_bytes(4, "little")
    return bytes(head)


def lookup3(data: bytes) -> int:
    """Bob Jenkins' hashlittle with seed 0 of at least one byte: HDF5's checksum of metadata."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    while len(data) > 12:
        a, b, c = _added((a, b, c), data)
        for shift in (4, 6, 8, 16, 19, 4):
            a = (a - c & _MASK) ^ _rotated(c, shift)
            a, b, c = b, c + b & _MASK, a
        data = data[12:]
    a, b, c = _added((a, b, c), data.ljust(12, b"\0"))
    for shift in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotated(b, shift) & _MASK
        a, b, c = b, c, a
    return b


def _added(state: tuple[int, int, int], data: bytes) -> tuple[int, int, int]:
    words = (int.from_bytes(data[place : place + 4], "little") for place in (0, 4, 8))
    a, b, c = (word + more & _MASK for word, more in zip(state, words, strict=True))
    return a, b, c


def _rotated(word: int, shift: int) -> int:
    return (word << shift | word >> 32 - shift) & _MASK
