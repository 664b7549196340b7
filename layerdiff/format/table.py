"""One append-only HDF5 table: HDF5 lays out its chunks, records go straight into the file.

A call to HDF5 for a few records costs fifty times what writing their bytes does, and a pass
writes to many tables. So a table grows by whole chunks, which HDF5 allocates and then never
touches again; `StoredTable` reads them in the same way.
"""

import os
from typing import Any, Final

import h5py
import numpy as np

from layerdiff.format import schema


def all_tables() -> dict[str, np.dtype[Any]]:
    """Every table's record dtype by name, `passes` last."""
    return {**schema.TABLES, schema.PASSES: schema.PASS}


def create_tables(file: h5py.File) -> dict[str, "TableWriter"]:
    """Mark *file* as a dump and create every table, empty."""
    file.attrs.create(schema.FORMAT_ATTRIBUTE, np.bytes_(schema.FORMAT_NAME))
    file.attrs.create(schema.VERSION_ATTRIBUTE, schema.FORMAT_VERSION, dtype="<u4")
    return {name: TableWriter(file, name, dtype) for name, dtype in all_tables().items()}


class TableWriter:
    """An HDF5 dataset that only grows.

    The length of `passes` says how many commit records count, so it is always exact; other
    tables may be longer than the last commit record says, until they are trimmed.
    """

    def __init__(self, file: h5py.File, name: str, dtype: np.dtype[Any]) -> None:
        rows = schema.CHUNK_ROWS.get(name, schema.DEFAULT_CHUNK_ROWS)
        dataset = file.create_dataset(
            name,
            shape=(0, *dtype.shape),
            maxshape=(None, *dtype.shape),
            chunks=(rows, *dtype.shape),
            dtype=dtype.base,
            track_times=False,
        )
        self._dataset: Final = dataset.id
        self._file: Final = int(file.id.get_vfd_handle())
        self._tail: Final = dtype.shape
        self._record_bytes: Final = dtype.itemsize
        self._chunk_rows: Final = rows
        self._chunk_bytes: Final = rows * dtype.itemsize
        self._step: Final = 1 if name == schema.PASSES else rows
        self.length = 0
        """Rows there is room for; readers learn of more when HDF5 is flushed."""
        self._chunks = 0
        """Chunks that are in the file."""
        self._last = (-1, 0)
        """The chunk that was written to last, and where in the file it starts."""

    def write(self, first: int, records: np.ndarray[Any, Any]) -> None:
        """Make *records*, contiguous and of the table's dtype, the last rows, from *first* on."""
        stop = first + len(records)
        if stop > self.length:
            self._resize(-(-stop // self._step) * self._step)
        data = records.reshape(-1).view(np.uint8).data
        size, place = self._record_bytes, first
        while place < stop:
            chunk, offset = divmod(place, self._chunk_rows)
            end = min(stop, (chunk + 1) * self._chunk_rows)
            part = data[(place - first) * size : (end - first) * size]
            if chunk >= self._chunks:
                self._begin(chunk, part)
            elif os.pwrite(self._file, part, self._start_of(chunk) + offset * size) != len(part):
                raise OSError("no space left")
            place = end

    def trim(self, length: int) -> None:
        """Let the table end at *length*, for tools that know no commit records."""
        if length != self.length:
            self._resize(length)

    def _resize(self, length: int) -> None:
        self._dataset.set_extent((length, *self._tail))
        self.length = length

    def _begin(self, chunk: int, part: memoryview) -> None:
        """Make a chunk that begins with *part*."""
        self._dataset.write_direct_chunk(
            self._corner(chunk), bytes(part).ljust(self._chunk_bytes, b"\0")
        )
        self._chunks = chunk + 1

    def _start_of(self, chunk: int) -> int:
        """Where in the file a chunk starts."""
        if chunk != self._last[0]:
            # HDF5 walks over all chunks to tell: asked only for chunks that are not full yet.
            place = self._dataset.get_chunk_info_by_coord(self._corner(chunk)).byte_offset
            self._last = chunk, place
        return self._last[1]

    def _corner(self, chunk: int) -> tuple[int, ...]:
        return (chunk * self._chunk_rows, *(0 for _ in self._tail))
