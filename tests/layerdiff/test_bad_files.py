"""Files that are no dump, or claim to be one: one short line each, no hang, no big allocation."""

import os
import random
import resource
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from layerdiff.errors import DumpError, NotADump, UnsupportedFormat
from layerdiff.format import schema, storage
from layerdiff.format.reader import Dump
from layerdiff.format.superblock import lookup3
from layerdiff.format.writer import DumpWriter
from layerdiff.testing import ToyRequest, toy_dump
from layerdiff.vocabulary import Phase

Tables = dict[str, np.ndarray[Any, Any]]
Edit = Callable[[Tables], None]

TOKENS = (5, 3, 8, 1, 2, 9)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dump with something in most tables."""
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    requests = [ToyRequest("fill", TOKENS[:3]), ToyRequest("r", TOKENS, takes="fill")]
    return toy_dump(path, requests)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump as a killed recorder leaves it."""
    folder = tmp_path_factory.mktemp("killed")
    writer = DumpWriter(folder / "live.h5", {"arm": "cold"})
    for index in range(100):
        writer.append("digests", np.arange(100, dtype=np.uint64))
        writer.text(f"text {index}")
        writer.commit(phase=Phase.DECODE)
    shutil.copy(folder / "live.h5", folder / "killed.h5")
    writer.close()
    return folder / "killed.h5"


def refused(path: Path | str, error: type[DumpError] = NotADump) -> str:
    """The one line with which *path* is refused, within a second and little memory."""
    started, memory = time.monotonic(), peak_memory()
    with pytest.raises(error) as caught:
        Dump.open(path)
    assert time.monotonic() - started < 2
    assert peak_memory() - memory < 200 << 20
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert len(caught.value.problem) < 200
    assert caught.value.__cause__ is None
    return message


def peak_memory() -> int:
    """Bytes of resident memory at the most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class TestNoDump:
    def test_a_missing_file(self, tmp_path: Path) -> None:
        """The path is in the line."""
        assert "nowhere.h5: no such file" in refused(tmp_path / "nowhere.h5")

    def test_a_folder(self, tmp_path: Path) -> None:
        """Where one dump is asked for, a folder is none."""
        assert "folder" in refused(tmp_path)

    def test_no_permission(self, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The system's word, not a traceback (permissions do not bind root)."""

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        assert "permission" in refused(whole)

    def test_an_empty_file(self, tmp_path: Path) -> None:
        """A recorder that died before its first byte."""
        (tmp_path / "empty.h5").touch()
        assert "empty" in refused(tmp_path / "empty.h5")

    def test_a_device_and_a_pipe(self, tmp_path: Path) -> None:
        """Opening either could wait for ever."""
        os.mkfifo(tmp_path / "pipe.h5")
        assert stat.S_ISFIFO((tmp_path / "pipe.h5").stat().st_mode)
        assert "regular" in refused(tmp_path / "pipe.h5")
        assert "regular" in refused("/dev/zero")

    @pytest.mark.parametrize("name", ["a\0b.h5", "x" * 5000])
    def test_a_name_that_no_file_has(self, name: str) -> None:
        """Nor can have."""
        refused(name)

    @pytest.mark.parametrize("size", [1, 7, 8, 47, 48, 100_000])
    def test_random_bytes(self, tmp_path: Path, size: int) -> None:
        """Of any size."""
        path = tmp_path / "random.h5"
        path.write_bytes(random.Random(size).randbytes(size))
        assert "no HDF5 file" in refused(path)

    @pytest.mark.parametrize("version", ["earliest", "v110", "latest"])
    def test_another_hdf5_file(self, tmp_path: Path, version: str) -> None:
        """In any version of HDF5's own format."""
        path = tmp_path / "other.h5"
        with h5py.File(path, "w", libver=version) as file:
            file["weights"] = np.zeros(4)
            file.attrs["format"] = "keras"
        assert "is an HDF5 file, but no dump" in refused(path)

    def test_another_file_with_an_absurd_mark(self, tmp_path: Path) -> None:
        """The attribute's size is looked at before its value."""
        path = tmp_path / "other.h5"
        with h5py.File(path, "w", libver="v110") as file:
            file.attrs["format"] = np.zeros(4000, "S16")
            file.attrs["version"] = "one"
        assert "no dump" in refused(path)

    @pytest.mark.parametrize("version", [2, 4_000_000_000])
    def test_a_newer_format(self, whole: Path, tmp_path: Path, version: int) -> None:
        """Known by its number, whatever else it holds."""
        path = rewrite(whole, tmp_path / "new.h5", lambda tables: tables.clear(), version)
        assert "upgrade layerdiff" in refused(path, UnsupportedFormat)

    def test_format_zero(self, whole: Path, tmp_path: Path) -> None:
        """There never was one."""
        path = rewrite(whole, tmp_path / "old.h5", lambda tables: None, 0)
        assert "no dump format 0" in refused(path)


class TestTruncated:
    @pytest.mark.parametrize("at", range(50))
    def test_a_dump_that_was_closed(self, whole: Path, tmp_path: Path, at: int) -> None:
        """Each byte counts, down to the last."""
        data = whole.read_bytes()
        length = len(data) - 1 if at == 49 else len(data) * at // 50
        path = tmp_path / "cut.h5"
        path.write_bytes(data[:length])
        assert ("empty" if not length else "cut short") in refused(path)

    @pytest.mark.parametrize("at", range(50))
    def test_a_dump_of_a_killed_recorder(self, killed: Path, tmp_path: Path, at: int) -> None:
        """Either refused, or everything that was committed is there."""
        data = killed.read_bytes()
        path = tmp_path / "cut.h5"
        path.write_bytes(data[: len(data) * at // 50])
        try:
            with Dump.open(path) as dump:
                assert len(dump.passes) == 100
                dump.digests(0, dump.digest_count)
        except NotADump as error:
            assert len(str(error).splitlines()) == 1

    def test_while_it_is_read(self, whole: Path, tmp_path: Path) -> None:
        """What is no longer there is missed, not read as zeros."""
        path = Path(shutil.copy(whole, tmp_path))
        with Dump.open(path) as dump:
            os.truncate(path, 5000)
            with pytest.raises(NotADump, match="cut short"):
                dump.digests(0, dump.digest_count)


def rewrite(source: Path, target: Path, edit: Edit, version: int = schema.FORMAT_VERSION) -> Path:
    """A sound HDF5 file with the tables of *source*, edited."""
    with h5py.File(source, "r") as file:
        tables = {name: file[name][()] for name in file}
    edit(tables)
    with h5py.File(target, "w", libver="v110") as file:
        mark(file, version)
        for name, rows in tables.items():
            tail = rows.shape[1:]
            limits, chunks = (None, *tail), (64, *(max(1, size) for size in tail))
            file.create_dataset(name, data=rows, maxshape=limits, chunks=chunks)
    return target


def mark(file: h5py.File, version: int = schema.FORMAT_VERSION) -> None:
    """Make *file* look like a dump."""
    file.attrs.create("format", np.bytes_(schema.FORMAT_NAME))
    file.attrs.create("version", version, dtype="<u4")


def put(table: str, column: str, value: int, row: int = 0) -> Edit:
    """Change one number."""

    def edit(tables: Tables) -> None:
        tables[table][column][row] = value

    return edit


def put_text(text: bytes, identifier: int = 0) -> Edit:
    """Change one text."""

    def edit(tables: Tables) -> None:
        heap, ends = tables["text_bytes"].tobytes(), tables["text_ends"]
        start = int(ends[identifier - 1]) if identifier else 0
        stop = int(ends[identifier])
        grown = len(text) - (stop - start)
        new = heap[:start] + text + heap[stop:]
        tables["text_bytes"] = np.frombuffer(new, np.uint8)
        ends[identifier:] += np.uint64(grown % 2**64)
        passes = tables["passes"]["text_bytes_end"]
        passes[:] = (passes.astype(np.int64) + grown).astype(np.uint64)

    return edit


def cycle(tables: Tables) -> None:
    """Make a site depend on itself."""
    sites = tables["sites"]
    own = [index for index, site in enumerate(sites) if site["inputs"] == sites["inputs"][1]]
    assert own
    put_text(b"1", int(sites["inputs"][1]))(tables)


def facts(tables: Tables) -> None:
    """Make a kernel's facts a list."""
    put_text(b"[1]", int(tables["kernels"]["facts"][0]))(tables)


def inputs(text: bytes) -> Edit:
    """Change the inputs of site 1."""

    def edit(tables: Tables) -> None:
        put_text(text, int(tables["sites"]["inputs"][1]))(tables)

    return edit


def shape(text: bytes) -> Edit:
    """Change a row shape."""

    def edit(tables: Tables) -> None:
        put_text(text, int(tables["observations"]["shape"][0]))(tables)

    return edit


def unordered(tables: Tables) -> None:
    """Put the last rowset first."""
    tables["spans"]["rowset"] = tables["spans"]["rowset"][::-1]


def falling(tables: Tables) -> None:
    """Swap the ends of two texts."""
    tables["text_ends"][2:4] = tables["text_ends"][3:1:-1].copy()


HUGE = 2**63
HEADERS = {
    "a list": b"[1, 2]",
    "no JSON": b"arm: cold",
    "nothing": b"",
    "a NaN": b'{"arm": "cold", "x": NaN}',
    "an infinity": b'{"arm": "cold", "x": -Infinity}',
    "a number beyond float": b'{"arm": "cold", "x": 1e999}',
    "a number of many digits": b'{"arm": "cold", "x": ' + b"9" * 9999 + b"}",
    "no arm": b"{}",
    "an arm that is no text": b'{"arm": 3}',
    "deep lists": b'{"arm": "cold", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"arm": "a", "x": ' + b'{"x": ' * 50 + b"1" + b"}" * 51,
    "invalid UTF-8": b'{"arm": "\xff"}',
    "half a character": b'{"arm": "cold"}\xe2\x82',
    "too much": b'{"arm": "' + b"x" * schema.MAX_HEADER_BYTES + b'"}',
}
EDITS: dict[str, Edit] = {
    **{f"a header that is {name}": put_text(text) for name, text in HEADERS.items()},
    "texts without end": lambda t: t["text_ends"].fill(HUGE),
    "text ends that fall": falling,
    "a text of absurd length": put_text(b"x" * (schema.MAX_TEXT_BYTES + 1), 20),
    "a text that is no UTF-8": put_text(b"\xc3(", 20),
    "no text at all": lambda t: t["passes"]["text_ends_end"].fill(0),
    "a pass that ends beyond its table": put("passes", "digests_end", HUGE, -1),
    "a pass that ends before the last": put("passes", "spans_end", 0, -1),
    "a phase without word": put("passes", "phase", 77),
    "a pass of no rowset": put("passes", "rowset", 12345),
    "sketches for some": put("passes", "sketches_end", 1),
    "a site that is not there": put("observations", "site", 999),
    "a pass that is not there": put("observations", "pass_index", 999),
    "a later pass": put("observations", "pass_index", 1),
    "a kernel that is not there": put("observations", "kernel", 999),
    "a rowset that is not there": put("observations", "rowset", 2**32 - 2),
    "digests that are not there": put("observations", "first_digest", HUGE),
    "digests of a later pass": put("observations", "first_digest", 400),
    "more rows than there are": put("observations", "rows", 2**32 - 1),
    "more parts than there are": put("observations", "parts", 2**16 - 1),
    "other rows than the rowset": put("observations", "rows", 2),
    "a dtype that is not there": put("observations", "dtype", 65535),
    "a kind without word": put("observations", "kind", 255),
    "a moment without word": put("observations", "moment", 255),
    "a carried row with digests": put("observations", "flags", schema.FLAG_CARRIED),
    "a whole tensor of rows": put("observations", "flags", schema.FLAG_WHOLE_TENSOR),
    "a shape that is none": shape(b"a,b"),
    "a shape of 4300 digits": shape(b"9" * 5000),
    "a span that ends before its start": put("spans", "stop", 0, -1),
    "a span of no request": put("spans", "request", 99),
    "spans out of order": unordered,
    "an absurd rowset": put("spans", "rowset", 2**32 - 2, -1),
    "a token of no request": put("tokens", "request", 99),
    "a request of no name": put("requests", "name", 2**31),
    "a request in no pass": put("requests", "pass_index", 99),
    "a request that takes from nobody": put("requests", "source", 99),
    "a negative request": put("requests", "source", -2),
    "a site of another role": put("sites", "role", 9),
    "a site of another reach": put("sites", "reach", 9),
    "a site of another kind": put("sites", "kind", 99),
    "a site with inputs that are no text": put("sites", "inputs", 2**31),
    "inputs that are no numbers": inputs(b"a"),
    "inputs that are not there": inputs(b"4294967295"),
    "inputs of many digits": inputs(b"1" * 5000),
    "negative inputs": inputs(b"-1"),
    "a site graph with a cycle": cycle,
    "kernel facts that are no object": facts,
    "an event of another kind": put("events", "kind", 2**32 - 1),
    "an event of no request": put("events", "request", 99),
    "an event of no site": put("events", "site", -7),
    "an event of no text": put("events", "text", 2**31),
    "an event in no pass": put("events", "pass_index", 2**31),
    "a table that is missing": lambda t: t.__delitem__("spans"),
    "a table of another type": lambda t: t.update(digests=t["digests"].astype(">u8")),
    "a table of floats": lambda t: t.update(digests=t["digests"].astype("<f8")),
    "a table of other columns": lambda t: t.update(spans=t["tokens"]),
    "a table of another rank": lambda t: t.update(digests=t["digests"][:, None]),
    "sketches of another width": lambda t: t.update(sketches=t["sketches"][:, :4]),
}


class TestHostileTables:
    def test_tables_that_were_only_copied_are_read(self, whole: Path, tmp_path: Path) -> None:
        """What follows fails for what it changes, not for being a copy."""
        with Dump.open(rewrite(whole, tmp_path / "copy.h5", lambda tables: None)) as dump:
            assert dump.complete
            dump.check_roots()

    @pytest.mark.parametrize("what", EDITS)
    def test_content_that_breaks_the_format(self, whole: Path, tmp_path: Path, what: str) -> None:
        """Every reference, bound and word is checked once, before anything uses it."""
        refused(rewrite(whole, tmp_path / "bad.h5", EDITS[what]))

    def test_random_numbers_in_any_column(self, whole: Path, tmp_path: Path) -> None:
        """A dump that opens can be used whole, whatever is in it."""
        generator = random.Random(0)
        opened = 0
        for _ in range(150):
            path = rewrite(whole, tmp_path / "bad.h5", random_edit(generator))
            try:
                with Dump.open(path) as dump:
                    use(dump)
                    opened += 1
            except NotADump as error:
                assert len(str(error).splitlines()) == 1
        assert opened


def random_edit(generator: random.Random) -> Edit:
    """Put a random number anywhere."""

    def edit(tables: Tables) -> None:
        table = generator.choice([name for name, rows in tables.items() if len(rows)])
        rows = tables[table]
        raw = rows.view(np.uint8).reshape(-1)
        place = generator.randrange(len(raw))
        length = generator.choice((1, 4, 8))
        value = generator.choice((0, 1, 127, 255, generator.randrange(256)))
        raw[place : place + length] = value

    return edit


def use(dump: Dump) -> None:
    """Ask for everything."""
    dump.digests(0, dump.digest_count)
    dump.sketches(0, dump.digest_count)
    for request in dump.requests:
        dump.chain(request.index)
    for index, record in enumerate(dump.observations):
        dump.rowset(record["rowset"])
        dump.dtype_name(index)
        dump.digests(record["first_digest"], int(record["rows"]) * int(record["parts"]))
        if record["rows"]:
            dump.shape(record["shape"])
    repr((dump.events, dump.sites, dump.kernels, dump.header, dump.faults, dump.gaps))


class TestHostileStorage:
    @pytest.fixture
    def target(self, whole: Path, tmp_path: Path) -> Iterator[h5py.File]:
        """A copy of a sound dump, open to be spoilt."""
        with h5py.File(shutil.copy(whole, tmp_path / "bad.h5"), "r+", libver="v110") as file:
            yield file

    def spoilt(self, file: h5py.File) -> str:
        """The line with which *file* is refused."""
        path = Path(file.filename)
        file.close()
        return refused(path)

    def test_a_table_that_claims_what_no_disk_holds(self, target: h5py.File) -> None:
        """Sizes are checked against the file before memory is taken."""
        target["tokens"].resize((2**58,))
        passes = target["passes"][()]
        passes["tokens_end"][-1] = 2**58
        target["passes"][...] = passes
        assert "more than the file can hold" in self.spoilt(target)

    def test_commits_that_claim_what_no_disk_holds(self, target: h5py.File) -> None:
        """The commit records too."""
        target["passes"].resize((2**50,))
        assert "more than the file can hold" in self.spoilt(target)

    def test_rows_that_are_not_stored(self, target: h5py.File) -> None:
        """A hole would read as zeros."""
        rows = len(target["digests"])
        del target["digests"]
        target.create_dataset("digests", (rows,), "<u8", maxshape=(None,), chunks=(64,))
        assert "damaged" in self.spoilt(target)

    def test_a_table_that_was_huge_once(self, target: h5py.File) -> None:
        """HDF5 keeps looking for chunks up to the largest index that ever was."""
        rows = target["digests"][()]
        del target["digests"]
        table = target.create_dataset("digests", (2**28,), "<u8", maxshape=(None,), chunks=(64,))
        table[-1:] = 1
        table.resize((len(rows),))
        assert "damaged" in self.spoilt(target)

    def test_a_soft_link(self, target: h5py.File) -> None:
        """Tables are in the file by their own name."""
        target.move("spans", "elsewhere")
        target["spans"] = h5py.SoftLink("/elsewhere")
        assert "link" in self.spoilt(target)

    def test_an_external_link(self, target: h5py.File) -> None:
        """No other file is opened."""
        del target["spans"]
        target["spans"] = h5py.ExternalLink("/dev/zero", "/spans")
        assert "link" in self.spoilt(target)

    def test_a_virtual_table(self, target: h5py.File, tmp_path: Path) -> None:
        """It would be made of other files, even to tell its size."""
        os.mkfifo(tmp_path / "pipe.h5")
        del target["digests"]
        layout = h5py.VirtualLayout((10,), "<u8", maxshape=(None,))
        source = h5py.VirtualSource(str(tmp_path / "pipe.h5"), "x", (10,), maxshape=(None,))
        layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
        target.create_virtual_dataset("digests", layout)
        assert "not stored plainly" in self.spoilt(target)

    def test_external_storage(self, target: h5py.File, tmp_path: Path) -> None:
        """Its bytes would be those of any file of the reader's."""
        (tmp_path / "secret").write_bytes(bytes(8000))
        del target["digests"]
        outside = [(str(tmp_path / "secret"), 0, 8000)]
        target.create_dataset("digests", (1000,), "<u8", external=outside)
        assert "not stored plainly" in self.spoilt(target)

    def test_a_compressed_table(self, target: h5py.File) -> None:
        """A kilobyte can unfold to gigabytes."""
        rows = target["digests"][()]
        del target["digests"]
        target.create_dataset("digests", data=rows, maxshape=(None,), compression="gzip")
        assert "not stored plainly" in self.spoilt(target)

    def test_a_group_in_place_of_a_table(self, target: h5py.File) -> None:
        """Names alone make no dump."""
        del target["spans"]
        target.create_group("spans")
        assert "damaged" in self.spoilt(target)

    def test_a_type_by_name_in_place_of_a_table(self, target: h5py.File) -> None:
        """Nor do types."""
        del target["spans"]
        target["spans"] = np.dtype("<u8")
        assert "damaged" in self.spoilt(target)

    def test_two_tables_that_are_one(self, target: h5py.File) -> None:
        """Overlapping tables could claim more rows than the file has bytes for."""
        del target["text_ends"]
        target["text_ends"] = target["digests"]
        self.spoilt(target)

    def test_absurd_chunks(self, target: h5py.File) -> None:
        """A chunk is read whole."""
        del target["pads"]
        shape = {"shape": (0,), "maxshape": (None,), "chunks": (1 << 24,)}
        target.create_dataset("pads", dtype=schema.PADS, **shape)
        assert "chunks" in self.spoilt(target)


@pytest.mark.parametrize("flags", [1, 4])
def test_a_file_whose_recorder_died_at_its_start(whole: Path, tmp_path: Path, flags: int) -> None:
    """It was never made ready; a flag that nobody wrote is damage."""
    data = bytearray(whole.read_bytes())
    data[11] = flags
    data[44:48] = lookup3(bytes(data[:44])).to_bytes(4, "little")
    path = tmp_path / "begun.h5"
    path.write_bytes(data)
    if flags == 1:
        assert "just being made" in refused(path)
    else:
        Dump.open(path).close()


def test_flipped_bits_anywhere(whole: Path, tmp_path: Path) -> None:
    """A slice of what `benchmarks/fuzz_dump.py` does by the thousand."""
    data = whole.read_bytes()
    generator = random.Random(1)
    path = tmp_path / "flipped.h5"
    for number in range(300):
        spoilt = bytearray(data)
        place = generator.randrange(12_000 if number % 2 else len(data))
        spoilt[place] ^= 1 << generator.randrange(8)
        path.write_bytes(spoilt)
        try:
            with Dump.open(path) as dump:
                use(dump)
        except NotADump as error:
            assert len(str(error).splitlines()) == 1


def test_an_error_of_the_reader_itself_is_not_hidden(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what the file or HDF5 says becomes a word about the file."""

    def fail(*_: object) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(storage.StoredTable, "read", fail)
    with pytest.raises(AttributeError):
        Dump.open(whole)
