"""One append-only HDF5 table, written through the low-level interface for speed."""

from typing import Any

import h5py
import numpy as np
from h5py import h5s

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
    """An HDF5 dataset that only grows."""

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
        self._dataset = dataset.id
        self._type = dataset.id.get_type()
        self._tail = dtype.shape

    def write(self, first: int, records: np.ndarray[Any, Any]) -> None:
        """Make *records*, contiguous and of the table's dtype, the last rows, from *first* on."""
        count = (len(records), *self._tail)
        start = (first, *(0 for _ in self._tail))
        self._dataset.set_extent((first + len(records), *self._tail))
        target = self._dataset.get_space()
        target.select_hyperslab(start, count)
        # Naming the type saves building it from the dtype, half the cost of a small write.
        self._dataset.write(h5s.create_simple(count), target, records, self._type)
