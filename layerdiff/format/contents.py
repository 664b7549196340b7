"""Loads a dump file: storage first, then bounds, then every reference, and only then content."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import h5py
import numpy as np

from layerdiff.errors import NotADump, UnsupportedFormat
from layerdiff.format import schema
from layerdiff.format.checks import check_passes, check_tables, rowset_bounds
from layerdiff.format.damage import Broken, CutShort, Damage, reason
from layerdiff.format.storage import (
    HDF5_ERRORS,
    StoredTable,
    TableClaim,
    open_regular,
    read_version,
)
from layerdiff.format.superblock import ClosedView, is_open_for_writing, read_superblock
from layerdiff.format.text import Texts, json_object

Array = np.ndarray[Any, Any]

_TEXT: Final = ("text_bytes", "text_ends")
_LAZY: Final = ("digests", "sketches")
_PATIENCE: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2)
"""Seconds between tries, as a live recorder may be writing what is just read."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a dump holds up to its last finished pass, checked."""

    file: IO[bytes]
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
    digests: StoredTable
    sketches: StoredTable


def open_contents(path: Path) -> Contents:
    """The checked contents of the dump at *path*.

    Raises:
        NotADump: It is missing, foreign, truncated or damaged.
        UnsupportedFormat: A newer layerdiff wrote it.
    """
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open_regular(path))
            passes, stored = _locate(path, file)
            contents = _load(file, passes, stored)
            stack.pop_all()
            return contents
    except Damage as damage:
        raise NotADump(path, str(damage)) from None
    except OSError as error:
        raise NotADump(path, f"cannot be read: {reason(error)}") from None


def _locate(path: Path, file: IO[bytes]) -> tuple[Array, Mapping[str, StoredTable]]:
    """The commit records, and where the committed rows of each table are stored."""
    for wait in (*_PATIENCE, None):
        superblock = read_superblock(file)
        try:
            with h5py.File(ClosedView(file, superblock), "r") as structure:
                version = read_version(structure)
                _check_version(path, version)
                dtypes = schema.TABLES if version > 1 else schema.TABLES_1
                return _tables(structure, file, dtypes, is_open_for_writing(superblock))
        except HDF5_ERRORS as error:
            if wait is None or not is_open_for_writing(superblock):
                raise _named(error) from None
        time.sleep(wait)
    raise AssertionError


def _tables(
    structure: h5py.File, file: IO[bytes], dtypes: Mapping[str, np.dtype[Any]], writing: bool
) -> tuple[Array, dict[str, StoredTable]]:
    # `passes` first: what it names was flushed before it, so the tables are seen at least so far.
    claim = TableClaim(structure, schema.PASSES, schema.PASS)
    committed = claim.locate_committed(file, may_fail_at_end=writing)
    passes = committed.read(file, 0, committed.rows)
    claims = {name: TableClaim(structure, name, dtype) for name, dtype in dtypes.items()}
    check_passes(passes, {name: table.length for name, table in claims.items()})
    if len(passes):
        ends = {name: int(passes[f"{name}_end"][-1]) for name in claims}
    else:
        # Before the first pass only the header counts, the first text.
        first = claims["text_ends"].locate(1, file).read(file, 0, 1)
        ends = dict.fromkeys(claims, 0) | {"text_ends": 1, "text_bytes": int(first[0])}
    stored = {name: table.locate(ends[name], file) for name, table in claims.items()}
    total = committed.stored_bytes + sum(table.stored_bytes for table in stored.values())
    if total > file.seek(0, 2):
        raise Broken("tables share the same bytes")
    return passes, stored


def _load(file: IO[bytes], passes: Array, stored: Mapping[str, StoredTable]) -> Contents:
    texts = Texts(*(stored[name].read(file, 0, stored[name].rows) for name in _TEXT))
    tables = {n: t.read(file, 0, t.rows) for n, t in stored.items() if n not in _TEXT + _LAZY}
    for name in ("events", "sites"):
        tables[name] = _widened(tables[name], schema.TABLES[name])
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
        digests=stored["digests"],
        sketches=stored["sketches"],
    )


def _check_version(path: Path, version: int) -> None:
    if version > schema.FORMAT_VERSION:
        raise UnsupportedFormat(path, found=version, supported=schema.FORMAT_VERSION)
    if version < schema.OLDEST_VERSION:
        raise Broken(f"there is no dump format {version}")


def _widened(records: Array, dtype: np.dtype[Any]) -> Array:
    """Records of format 1 in the columns of today; what it did not have is unknown, or no flag."""
    if records.dtype == dtype:
        return records
    wide = np.zeros(len(records), dtype)
    for name in dtype.names or ():
        if name in (records.dtype.names or ()):
            wide[name] = records[name]
        elif name != "flags":
            wide[name] = schema.NONE
    return wide


def _rowset_sizes(spans: Array, bounds: Array) -> Array:
    lengths = spans["stop"].astype(np.int64) - spans["start"]
    return np.diff(np.concatenate(([0], np.cumsum(lengths)))[bounds])


def _header(texts: Texts) -> dict[str, Any]:
    header = json_object(texts.raw(0), "the header")
    if not isinstance(header.get("arm"), str):
        raise Broken("the header names no arm")
    return header


def _named(error: BaseException) -> Damage:
    return Damage(str(error)) if isinstance(error, CutShort) else Broken(reason(error))
