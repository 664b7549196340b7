"""Where a dump's rows lie in its file, asked of HDF5 once, and how they are read from there.

HDF5 lets a file of a few bytes claim any size, point into other files, or leave holes that
read as zeros. So a table is taken only if it is plain (chunked, unfiltered, of exactly the
expected type) and every chunk it needs lies inside this file. Rows are then read from the file
itself: no lock, no library state, the same bytes whether the recorder lives or not.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import h5py
import numpy as np

from layerdiff.format import schema
from layerdiff.format.damage import Broken, CutShort, Damage, reason

Array = np.ndarray[Any, Any]

_HDF5: Final[Any] = h5py
"""Untyped: the library's compiled modules have no hints."""
_MAX_CHUNK_BYTES: Final = 1 << 24
_NOWHERE: Final = np.iinfo(np.uint64).max

HDF5_ERRORS: Final = (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError)
"""What h5py raises on a bad file."""


def open_regular(path: Path) -> IO[bytes]:
    """The file at *path*, open for reading.

    Raises:
        Damage: There is none, it is a folder or a device, or it cannot be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise Damage("is a folder; name the dump file in it")
        if not stat.S_ISREG(mode):
            raise Damage("is no regular file; name a dump file")
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise Damage("no such file") from None
    except PermissionError:
        raise Damage("no permission to read it") from None
    except (OSError, ValueError) as error:
        raise Damage(f"cannot be read: {reason(error)}") from None


def read_version(file: h5py.File) -> int:
    """The dump format's version.

    Raises:
        Damage: It is an HDF5 file, but no dump.
    """
    foreign = Damage("is an HDF5 file, but no dump; name a file that layerdiff recorded")
    attributes: Any = file.attrs
    for name in (schema.FORMAT_ATTRIBUTE, schema.VERSION_ATTRIBUTE):
        if name not in attributes:
            raise foreign
    mark = attributes.get_id(schema.FORMAT_ATTRIBUTE)
    if mark.shape != () or mark.get_storage_size() > 64 or mark.dtype.kind != "S":
        raise foreign
    if bytes(attributes[schema.FORMAT_ATTRIBUTE]) != schema.FORMAT_NAME.encode():
        raise foreign
    version = attributes.get_id(schema.VERSION_ATTRIBUTE)
    if version.shape != () or version.dtype.kind not in "ui":
        raise Broken("the format version is no number")
    return int(attributes[schema.VERSION_ATTRIBUTE])


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The first rows of a table, known to be stored in the file itself."""

    name: str
    dtype: np.dtype[Any]
    rows: int
    chunk_rows: int
    addresses: Array
    """Where in the file each chunk starts, uint64 [chunks]."""

    @property
    def stored_bytes(self) -> int:
        """The bytes of the chunks that hold the rows."""
        return len(self.addresses) * self.chunk_rows * self.dtype.itemsize

    def read(self, file: IO[bytes], first: int, count: int) -> Array:
        """Records [first, first + count).

        Raises:
            IndexError: Some of them are not there.
            CutShort: The file has become shorter.
        """
        if first < 0 or count < 0 or first + count > self.rows:
            raise IndexError(f"{self.name} [{first}, {first + count}) of {self.rows}")
        records = np.empty((count, *self.dtype.shape), dtype=self.dtype.base)
        target = records.reshape(-1).view(np.uint8).data
        size, place = self.dtype.itemsize, first
        while place < first + count:
            chunk, offset = divmod(place, self.chunk_rows)
            stop = min(first + count, (chunk + 1) * self.chunk_rows)
            part = target[(place - first) * size : (stop - first) * size]
            address = int(self.addresses[chunk]) + offset * size
            if os.preadv(file.fileno(), [part], address) != len(part):
                raise CutShort
            place = stop
        return records


class TableClaim:
    """A table as HDF5 describes it.

    Args:
        file: The open dump.
        name: The table.
        dtype: What a record must be.

    Raises:
        Broken: The table is missing or is not plain.
    """

    def __init__(self, file: h5py.File, name: str, dtype: np.dtype[Any]) -> None:
        self._name: Final = name
        self._dtype: Final = dtype
        self._dataset: Final = _open_plain(file, name, dtype)
        shape, chunks = self._dataset.shape, self._dataset.get_create_plist().get_chunk()
        if shape[1:] != dtype.shape or tuple(chunks[1:]) != dtype.shape:
            raise Broken(f"table {name} has the wrong shape")
        self._chunk_rows: Final = int(chunks[0])
        self._chunk_bytes: Final = self._chunk_rows * dtype.itemsize
        if self._chunk_bytes > _MAX_CHUNK_BYTES:
            raise Broken(f"table {name} has chunks of more than {_MAX_CHUNK_BYTES} bytes")
        self.length: Final = int(shape[0])
        """Rows the dataset claims, committed or not."""

    def locate_committed(self, file: IO[bytes], *, may_fail_at_end: bool) -> StoredTable:
        """Find all rows, or, if the recorder may have failed, those before a missing last chunk.

        A full disk can leave a commit record that is counted, but was never stored.
        """
        try:
            return self.locate(self.length, file)
        except (RuntimeError, ValueError):
            if not may_fail_at_end or not self.length:
                raise
        return self.locate((self.length - 1) // self._chunk_rows * self._chunk_rows, file)

    def locate(self, rows: int, file: IO[bytes]) -> StoredTable:
        """Find the first *rows* rows in the file.

        Raises:
            Broken: Some of them are not stored there.
            CutShort: The file ends before them.
        """
        name, size = self._name, os.fstat(file.fileno()).st_size
        if rows > self.length:
            raise Broken(f"table {name} holds {self.length} rows of {rows}")
        if rows * self._dtype.itemsize > size:
            raise Broken(f"table {name} claims {rows} rows, more than the file can hold")
        addresses = self._addresses(-(-rows // self._chunk_rows))
        ordered = np.sort(addresses)
        if len(ordered) and int(ordered[-1]) + self._chunk_bytes > size:
            raise CutShort
        if bool((np.diff(ordered) < self._chunk_bytes).any()):
            raise Broken(f"table {name} has chunks that overlap")
        return StoredTable(name, self._dtype, rows, self._chunk_rows, addresses)

    def _addresses(self, count: int) -> Array:
        """File offsets of the first *count* chunks, uint64 [count]."""
        addresses = np.full(count, _NOWHERE, dtype=np.uint64)
        if not count:
            return addresses
        # A direct look-up, which fails where nothing is stored. Without it, iterating over a
        # table that was once huge and has shrunk would visit every hole that it left.
        last = ((count - 1) * self._chunk_rows, *(0 for _ in self._dtype.shape))
        self._dataset.read_direct_chunk(last, out=bytearray(self._chunk_bytes))

        def visit(chunk: Any) -> bool | None:
            index = chunk.chunk_offset[0] // self._chunk_rows
            if index < count:
                addresses[index] = chunk.byte_offset
            return True if index >= count - 1 else None

        self._dataset.chunk_iter(visit)
        if bool((addresses == _NOWHERE).any()):
            raise Broken(f"table {self._name} has a hole")
        return addresses


def _open_plain(file: h5py.File, name: str, dtype: np.dtype[Any]) -> Any:
    encoded = name.encode()
    if not file.id.links.exists(encoded):
        raise Broken(f"table {name} is missing")
    if file.id.links.get_info(encoded).type != _HDF5.h5l.TYPE_HARD:
        raise Broken(f"table {name} is a link elsewhere")
    dataset = _HDF5.h5d.open(file.id, encoded)
    plan = dataset.get_create_plist()
    # Checked before its size is asked for: a virtual dataset opens other files to tell.
    if plan.get_layout() != _HDF5.h5d.CHUNKED or plan.get_nfilters() or plan.get_external_count():
        raise Broken(f"table {name} is not stored plainly in the file")
    if not dataset.get_type().equal(_HDF5.h5t.py_create(dtype.base)):
        raise Broken(f"table {name} holds records of another type")
    return dataset
