"""Opens an HDF5 file that nobody vouches for, and reads rows only where storage backs them.

HDF5 lets a file of a few bytes claim any size, point into other files, or leave holes that
read as zeros. So a table is read only if it is plain: chunked, unfiltered, of exactly the
expected type, and every chunk it needs lies inside this file.
"""

import os
import stat
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
from h5py import h5d, h5l, h5s, h5t

from layerdiff.format import schema
from layerdiff.format.damage import Broken, Damage

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_END_OFFSETS: Final = {0: 40, 1: 44, 2: 28, 3: 28}
"""Where a superblock of each version keeps the end of the file."""
_BEING_MADE: Final = 1
_SHARED_WRITE: Final = 4
_MAX_CHUNK_BYTES: Final = 1 << 24

HDF5_ERRORS: Final = (
    *(OSError, RuntimeError, KeyError, ValueError, TypeError),
    *(AttributeError, NotImplementedError, OverflowError, MemoryError),
)
"""What h5py raises on a bad file."""


def check_file(path: Path) -> None:
    """Look at *path* before HDF5 does.

    Raises:
        Damage: It is no regular file, cannot be read, is no HDF5 file, or was cut short.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise Damage("is a folder; name the dump file in it")
        if not stat.S_ISREG(status.st_mode):
            raise Damage("is no regular file; name a dump file")
        with path.open("rb") as file:
            head = file.read(64)
    except FileNotFoundError:
        raise Damage("no such file") from None
    except PermissionError:
        raise Damage("no permission to read it") from None
    except (OSError, ValueError) as error:
        raise Damage(f"cannot be read: {error}") from None
    if not head:
        raise Damage("the file is empty; record again")
    if not head.startswith(_SIGNATURE):
        raise Damage("is no HDF5 file, so no dump; name a file that layerdiff recorded")
    _check_superblock(head, status.st_size)


def _check_superblock(head: bytes, size: int) -> None:
    offset = _END_OFFSETS.get(head[8]) if len(head) == 64 else None
    if offset is None:
        raise Broken("its first bytes are no superblock")
    end = int.from_bytes(head[offset : offset + 8], "little")
    if end > size:
        raise Damage(f"was cut short: {size} of {end} bytes are left; copy or record it again")
    if head[8] >= 2 and head[11] & _BEING_MADE and not head[11] & _SHARED_WRITE:
        raise Damage("is just being made, or its recorder died at the start; record again")


def open_file(path: Path) -> h5py.File:
    """The HDF5 file, readable while its writer lives and after it was killed."""
    # Locks say nothing here (the writer may be alive or dead) and fail on read-only mounts.
    return h5py.File(path, "r", swmr=True, locking=False)


def read_version(file: h5py.File) -> int:
    """The dump format's version.

    Raises:
        Damage: It is an HDF5 file, but no dump.
    """
    foreign = Damage("is an HDF5 file, but no dump; name a file that layerdiff recorded")
    for name in (schema.FORMAT_ATTRIBUTE, schema.VERSION_ATTRIBUTE):
        if name not in file.attrs:
            raise foreign
    mark = file.attrs.get_id(schema.FORMAT_ATTRIBUTE)
    if mark.shape != () or mark.get_storage_size() > 64 or mark.dtype.kind != "S":
        raise foreign
    if bytes(file.attrs[schema.FORMAT_ATTRIBUTE]) != schema.FORMAT_NAME.encode():
        raise foreign
    version = file.attrs.get_id(schema.VERSION_ATTRIBUTE)
    if version.shape != () or version.dtype.kind not in "ui":
        raise Broken("the format version is no number")
    return int(file.attrs[schema.VERSION_ATTRIBUTE])


class TableReader:
    """A table whose first rows are known to be stored in the file itself.

    Args:
        file: The open dump.
        name: The table.
        dtype: What a record must be.

    Raises:
        Damage: The table is missing or is not plain.
    """

    def __init__(self, file: h5py.File, name: str, dtype: np.dtype[Any]) -> None:
        self.name: Final = name
        self.dtype: Final = dtype
        self._dataset: Final = _open_plain(file, name, dtype)
        shape, chunks = self._dataset.shape, self._dataset.get_create_plist().get_chunk()
        if shape[1:] != dtype.shape or tuple(chunks[1:]) != dtype.shape:
            raise Broken(f"table {name} has the wrong shape")
        if chunks[0] * dtype.itemsize > _MAX_CHUNK_BYTES:
            raise Broken(f"table {name} has chunks of more than {_MAX_CHUNK_BYTES} bytes")
        self._chunk_rows: Final = int(chunks[0])
        self.length: Final = int(shape[0])
        """Rows the dataset claims, committed or not."""

    def check_storage(self, rows: int, path: Path) -> int:
        """Make sure that the first *rows* rows are backed by bytes of the file itself.

        Returns:
            The bytes of the chunks that hold them.
        """
        size = os.path.getsize(path)
        if rows > self.length:
            raise Broken(f"table {self.name} holds {self.length} rows of {rows}")
        if rows * self.dtype.itemsize > size:
            raise Broken(f"table {self.name} claims {rows} rows, more than the file can hold")
        if not rows:
            return 0
        chunk_bytes = self._chunk_rows * self.dtype.itemsize
        addresses = np.sort(self._chunk_addresses(-(-rows // self._chunk_rows)))
        if int(addresses[-1]) + chunk_bytes > size:
            raise Broken(f"table {self.name} reaches beyond the end of the file")
        if bool((np.diff(addresses) < chunk_bytes).any()):
            raise Broken(f"table {self.name} has chunks that overlap")
        return len(addresses) * chunk_bytes

    def _chunk_addresses(self, count: int) -> np.ndarray[Any, Any]:
        """File offsets of the first *count* chunks, uint64 [count]."""
        tail = tuple(0 for _ in self.dtype.shape)
        last = (count - 1) * self._chunk_rows
        # A direct look-up, which fails where nothing is stored. Without it, iterating over a
        # table that was once huge and has shrunk would visit every hole that it left.
        self._dataset.read_direct_chunk((last, *tail))
        addresses = np.full(count, np.iinfo(np.uint64).max, dtype=np.uint64)

        def visit(chunk: Any) -> bool | None:
            index = chunk.chunk_offset[0] // self._chunk_rows
            if index < count:
                addresses[index] = chunk.byte_offset
            return True if index >= count - 1 else None

        self._dataset.chunk_iter(visit)
        if bool((addresses == np.iinfo(np.uint64).max).any()):
            raise Broken(f"table {self.name} has a hole")
        return addresses

    def read(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """Records [first, first + count), which `check_storage` has covered."""
        records = np.empty((count, *self.dtype.shape), dtype=self.dtype.base)
        if count:
            source = self._dataset.get_space()
            source.select_hyperslab((first, *(0 for _ in self.dtype.shape)), records.shape)
            self._dataset.read(h5s.create_simple(records.shape), source, records)
        return records


def _open_plain(file: h5py.File, name: str, dtype: np.dtype[Any]) -> h5d.DatasetID:
    encoded = name.encode()
    if not file.id.links.exists(encoded):
        raise Broken(f"table {name} is missing")
    if file.id.links.get_info(encoded).type != h5l.TYPE_HARD:
        raise Broken(f"table {name} is a link elsewhere")
    dataset = h5d.open(file.id, encoded)
    plan = dataset.get_create_plist()
    # Checked before its size is asked for: a virtual dataset opens other files to tell.
    if plan.get_layout() != h5d.CHUNKED or plan.get_nfilters() or plan.get_external_count():
        raise Broken(f"table {name} is not stored plainly in the file")
    if not dataset.get_type().equal(h5t.py_create(dtype.base)):
        raise Broken(f"table {name} holds records of another type")
    return dataset
