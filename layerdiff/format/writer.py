"""Writes a dump: append-only tables, one write a table and a flush a pass, or two.

The commit record in `passes` is written after everything it covers is in the file, so a
reader trusts exactly what the last record names, whatever happens to this process.
"""

import contextlib
import json
import math
import os
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from layerdiff.errors import CaptureError
from layerdiff.format import schema
from layerdiff.format.damage import reason
from layerdiff.format.table import TableWriter, create_tables
from layerdiff.vocabulary import Phase

_DTYPE_NAMES: Final = (
    *("bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
)
"""Interned first, so that their text ids fit `observations.dtype` however long a run gets."""


_Buffered = tuple[int, np.ndarray[Any, Any]]
"""Records and the index of the first of them, so that writing them twice does no harm."""


class DumpWriter:
    """One dump being written; not for use from two threads at once.

    Args:
        path: The file to make.
        header: Facts about the run; `arm` must be among them. Anything JSON can hold.
        overwrite: Whether a file that is already there is replaced.

    Raises:
        CaptureError: The file exists, cannot be made, or *header* is no JSON.
    """

    def __init__(
        self, path: Path | str, header: Mapping[str, object], *, overwrite: bool = False
    ) -> None:
        self.path: Final = Path(path)
        self._pid: Final = os.getpid()
        self._texts: dict[str, int] = {}
        self._counts: dict[str, int] = dict.fromkeys(schema.TABLES, 0)
        self._buffers: dict[str, list[_Buffered]] = {name: [] for name in schema.TABLES}
        self._flushed: list[int] = []
        """The tables' lengths that readers know."""
        self._pass_index = 0
        self._broken: str | None = None
        first_text = _header_text(self.path, header)
        self._file: h5py.File | None = _create(self.path, overwrite=overwrite)
        try:
            self._tables = self._start(first_text)
        except BaseException:
            self._cut_off()
            self._abandon()
            self.path.unlink(missing_ok=True)
            raise
        _guard_forks(weakref.WeakMethod(self._cut_off))

    def _start(self, first_text: str) -> dict[str, TableWriter]:
        assert self._file is not None
        try:
            tables = create_tables(self._file)
            for value in (first_text, *_DTYPE_NAMES):
                self.text(value)
            for name in ("text_bytes", "text_ends"):
                self._write_buffered(tables, name)
            self._file.flush()
            self._file.swmr_mode = True
        except (OSError, RuntimeError, ValueError) as error:
            raise CaptureError(f"{self.path}: the dump cannot be made: {reason(error)}") from None
        return tables

    @property
    def pass_index(self) -> int:
        """The index that the next commit will get."""
        return self._pass_index

    def text(self, value: str) -> int:
        """The id of *value*, the same for the same text; text 0 is the header."""
        known = self._texts.get(value)
        if known is not None:
            return known
        # A lone surrogate (an odd file name) has no UTF-8; it is kept readable, not lost.
        data = value.encode("utf-8", "backslashreplace")
        limit = schema.MAX_HEADER_BYTES if not self._texts else schema.MAX_TEXT_BYTES
        if len(data) > limit:
            data = data[:limit].decode("utf-8", "ignore").encode()
        self.append("text_bytes", np.frombuffer(data, dtype=np.uint8))
        end = np.array([self._counts["text_bytes"]], dtype="<u8")
        identifier = self.append("text_ends", end)
        self._texts[value] = identifier
        return identifier

    def append(self, table: str, records: np.ndarray[Any, Any]) -> int:
        """Buffer *records* for the next commit; they are copied.

        Args:
            table: A name in `schema.TABLES`.
            records: Of that table's dtype, 1-d; `sketches` takes float32 [n, 5].

        Returns:
            The index in the table of the first of them, counting what is buffered.
        """
        copied = np.array(records, dtype=schema.TABLES[table].base, order="C")
        if copied.shape[1:] != schema.TABLES[table].shape or not copied.ndim:
            raise ValueError(f"{table} takes no records of shape {copied.shape}")
        first = self._counts[table]
        if len(copied):
            self._buffers[table].append((first, copied))
            self._counts[table] = first + len(copied)
        return first

    def commit(
        self,
        *,
        phase: Phase,
        flags: int = 0,
        batch: int = 0,
        width: int = 0,
        rowset: int = schema.NO_TEXT,
    ) -> int:
        """Make everything appended so far durable against the death of this process.

        Args:
            phase: What the pass did.
            flags: `schema.PASS_*` bits.
            batch: Rows of the batch, pads included.
            width: Tokens per batch row, pads included.
            rowset: The pass's token rows, or `schema.NO_TEXT`.

        Returns:
            The index of the pass.

        Raises:
            CaptureError: It cannot be written (a full disk); earlier passes stay readable and
                every later commit raises the same.
        """
        if self._broken is not None or self._file is None or os.getpid() != self._pid:
            raise CaptureError(f"{self.path}: {self._broken or 'the dump is closed'}")
        if self._counts["sketches"] not in (0, self._counts["digests"]):
            raise ValueError("either every digest has a sketch or none has")
        head = (phase, flags, batch, width, rowset, 0)
        record = np.array([(*head, *self._counts.values())], dtype=schema.PASS)
        try:
            for name in schema.TABLES:
                self._write_buffered(self._tables, name)
            lengths = [self._tables[name].length for name in schema.TABLES]
            if lengths != self._flushed:
                self._file.flush()
                self._flushed = lengths
            self._tables[schema.PASSES].write(self._pass_index, record)
            self._file.flush()
        except (OSError, RuntimeError, ValueError) as error:
            self._broken = f"writing failed after {self._pass_index} passes: {reason(error)}"
            self._cut_off()
            self._abandon()
            raise CaptureError(f"{self.path}: {self._broken}") from None
        self._pass_index += 1
        return self._pass_index - 1

    def close(self) -> None:
        """Commit what is left with a closing record, the mark of a clean end; safe to repeat.

        Raises:
            CaptureError: The last commit cannot be written.
        """
        if self._file is None or os.getpid() != self._pid:
            return
        self.commit(phase=Phase.PREFILL, flags=schema.PASS_CLOSING)
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            for name, count in self._counts.items():
                self._tables[name].trim(count)
        self._abandon()

    def _write_buffered(self, tables: Mapping[str, TableWriter], name: str) -> None:
        if buffered := self._buffers[name]:
            parts = [records for _, records in buffered]
            tables[name].write(
                buffered[0][0], parts[0] if len(parts) == 1 else np.concatenate(parts)
            )
            buffered.clear()

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                file.close()

    def _cut_off(self) -> None:
        """Let nothing that HDF5 still holds reach the file, which ends at the last commit.

        HDF5 writes what it holds when the process exits. After a failed write that fails again
        and ends in a crash; in a forked child it would overwrite the parent's file.
        """
        if self._file is None:
            return
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, int(self._file.id.get_vfd_handle()))
            os.close(null)


def _create(path: Path, *, overwrite: bool) -> h5py.File:
    if "\0" in str(path):  # HDF5 would make the file that is named up to there
        raise CaptureError(f"{str(path)!r}: no file name has a zero byte")
    try:
        if overwrite and path.is_file():
            path.unlink()
        # v110 is the oldest layout with single-writer, multiple-reader access: older readers
        # can read it, which the newest layout of the day does not promise.
        return h5py.File(path, "x", libver=("v110", "v110"), locking=False)
    except FileExistsError:
        problem = "exists already; name another file, or say overwrite=True"
    except FileNotFoundError:
        problem = f"no folder {path.parent}; make it first"
    except (OSError, ValueError, RuntimeError) as error:
        problem = f"cannot be made: {reason(error)}"
    raise CaptureError(f"{path}: {problem}")


def _guard_forks(cut_off: "weakref.WeakMethod[Callable[[], None]]") -> None:
    def in_child() -> None:
        if (method := cut_off()) is not None:
            method()

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=in_child)


def _header_text(path: Path, header: Mapping[str, object]) -> str:
    facts = {
        "format": schema.FORMAT_NAME,
        "version": schema.FORMAT_VERSION,
        "digest": schema.DIGEST_ALGORITHM,
        **header,
    }
    if not isinstance(facts.get("arm"), str):
        raise CaptureError(f"{path}: the header names no arm")
    try:
        text = json.dumps(_finite(facts), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: the header is no JSON: {reason(error)}") from None
    if len(text) > schema.MAX_HEADER_BYTES:
        raise CaptureError(f"{path}: the header is longer than {schema.MAX_HEADER_BYTES} bytes")
    return text


def _finite(value: object) -> object:
    """*value* with numbers that JSON cannot hold as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
