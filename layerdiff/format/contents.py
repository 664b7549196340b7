"""Loads a dump file: storage first, then bounds, then every reference, and only then content."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from layerdiff.errors import DumpError, NotADump, UnsupportedFormat
from layerdiff.format import schema
from layerdiff.format.checks import check_passes, check_tables, rowset_bounds
from layerdiff.format.damage import Broken, Damage
from layerdiff.format.storage import HDF5_ERRORS, TableReader, check_file, open_file, read_version
from layerdiff.format.text import Texts, json_object

Array = np.ndarray[Any, Any]

_NOT_IN_MEMORY: Final = ("text_bytes", "text_ends", "digests", "sketches")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a dump holds up to its last finished pass, checked."""

    file: h5py.File
    header: Mapping[str, Any]
    texts: Texts
    passes: Array
    """`schema.PASS` [passes]."""
    tables: Mapping[str, Array]
    """The tables that are held in memory, by name."""
    rowset_bounds: Array
    """Where each rowset starts among the spans, int64 [rowsets + 1]."""
    rowset_sizes: Array
    """Rows of each rowset, int64 [rowsets]."""
    digests: TableReader
    sketches: TableReader
    ends: Mapping[str, int]
    """Committed rows of each table."""

    def close(self) -> None:
        """Let go of the file."""
        with contextlib.suppress(*HDF5_ERRORS):
            self.file.close()


def open_contents(path: Path) -> Contents:
    """The checked contents of the dump at *path*.

    Raises:
        NotADump: It is missing, foreign, truncated or damaged.
        UnsupportedFormat: A newer layerdiff wrote it.
    """
    with contextlib.ExitStack() as stack:
        try:
            check_file(path)
            file = open_file(path)
            stack.callback(_close, file)
            _check_version(path, read_version(file))
            contents = _load(path, file)
        except Damage as damage:
            raise NotADump(path, str(damage)) from None
        except HDF5_ERRORS as error:
            raise _unreadable(path, error) from None
        stack.pop_all()
    return contents


def read_lazily(path: Path, table: TableReader, first: int, count: int, end: int) -> Array:
    """Records [first, first + count) of a table that is not held in memory.

    Raises:
        NotADump: The file can no longer be read.
    """
    if first < 0 or count < 0 or first + count > end:
        raise IndexError(f"{table.name} [{first}, {first + count}) of {end}")
    try:
        return table.read(first, count)
    except HDF5_ERRORS as error:
        raise _unreadable(path, error) from None


def _load(path: Path, file: h5py.File) -> Contents:
    # `passes` first: what it names was flushed before it, so the tables are seen at least so far.
    committed = TableReader(file, schema.PASSES, schema.PASS)
    stored = committed.check_storage(committed.length, path)
    passes = committed.read(0, committed.length)
    readers = {name: TableReader(file, name, dtype) for name, dtype in schema.TABLES.items()}
    check_passes(passes, {name: table.length for name, table in readers.items()})
    ends = _ends(path, passes, readers)
    stored += sum(table.check_storage(ends[name], path) for name, table in readers.items())
    if stored > path.stat().st_size:
        raise Broken("tables share the same bytes")
    texts = Texts(*(readers[name].read(0, ends[name]) for name in ("text_bytes", "text_ends")))
    tables = {n: t.read(0, ends[n]) for n, t in readers.items() if n not in _NOT_IN_MEMORY}
    bounds = rowset_bounds(tables["spans"])
    sizes = _rowset_sizes(tables["spans"], bounds)
    check_tables(passes, tables, texts, sizes)
    return Contents(
        file=file,
        header=_header(texts),
        texts=texts,
        passes=passes,
        tables=tables,
        rowset_bounds=bounds,
        rowset_sizes=sizes,
        digests=readers["digests"],
        sketches=readers["sketches"],
        ends=ends,
    )


def _check_version(path: Path, version: int) -> None:
    if version > schema.FORMAT_VERSION:
        raise UnsupportedFormat(path, found=version, supported=schema.FORMAT_VERSION)
    if version != schema.FORMAT_VERSION:
        raise Broken(f"there is no dump format {version}")


def _ends(path: Path, passes: Array, readers: Mapping[str, TableReader]) -> dict[str, int]:
    """Committed rows of each table; before the first pass only the header text counts."""
    if len(passes):
        return {name: int(passes[f"{name}_end"][-1]) for name in readers}
    texts = readers["text_ends"]
    texts.check_storage(1, path)
    header_end = int(texts.read(0, 1)[0])
    return dict.fromkeys(readers, 0) | {"text_ends": 1, "text_bytes": header_end}


def _rowset_sizes(spans: Array, bounds: Array) -> Array:
    lengths = spans["stop"].astype(np.int64) - spans["start"]
    return np.diff(np.concatenate(([0], np.cumsum(lengths)))[bounds])


def _header(texts: Texts) -> dict[str, Any]:
    header = json_object(texts.raw(0), "the header")
    if not isinstance(header.get("arm"), str):
        raise Broken("the header names no arm")
    return header


def _close(file: h5py.File) -> None:
    with contextlib.suppress(*HDF5_ERRORS):
        file.close()


def _unreadable(path: Path, error: BaseException) -> DumpError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return NotADump(path, f"is damaged ({reason}); record again")
