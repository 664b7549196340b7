"""Files that are no dump, or claim to be one: one short line each, no hang, no big allocation."""

import contextlib
import os
import random
import resource
import shutil
import stat
import time
from collections.abc import Iterator
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
from tests.layerdiff.hostile import EDITS, claim, random_edit, rewrite, use

TOKENS = (5, 3, 8, 1, 2, 9)


@pytest.fixture(scope="module", autouse=True)
def _small_files() -> Iterator[None]:
    """A test that goes wrong must not fill the disk: these files claim sizes that no disk has."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Lets a file be refused, in one line."""
    refusals = []
    try:
        yield
    except NotADump as error:
        refusals = str(error).splitlines()
    assert len(refusals) < 2


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

    @pytest.mark.parametrize("version", [3, 4_000_000_000])
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

    @pytest.mark.parametrize("at", range(0, 50, 4))
    def test_a_dump_of_a_killed_recorder(self, killed: Path, tmp_path: Path, at: int) -> None:
        """Either refused, or everything that was committed is there."""
        data = killed.read_bytes()
        path = tmp_path / "cut.h5"
        path.write_bytes(data[: len(data) * at // 50])
        with one_line(), Dump.open(path) as dump:
            assert len(dump.passes) == 100
            dump.digests(0, dump.digest_count)

    def test_while_it_is_read(self, whole: Path, tmp_path: Path) -> None:
        """What is no longer there is missed, not read as zeros."""
        path = Path(shutil.copy(whole, tmp_path))
        with Dump.open(path) as dump:
            os.truncate(path, 5000)
            with pytest.raises(NotADump, match="cut short"):
                dump.digests(0, dump.digest_count)


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
            with one_line(), Dump.open(path) as dump:
                use(dump)
                opened += 1
        assert opened


class TestHostileStorage:
    @pytest.fixture
    def target(self, whole: Path, tmp_path: Path) -> Iterator[Any]:
        """A copy of a sound dump, open to be spoilt."""
        with h5py.File(shutil.copy(whole, tmp_path / "bad.h5"), "r+", libver="v110") as file:
            yield file

    def spoilt(self, file: Any) -> str:
        """The line with which *file* is refused."""
        path = Path(file.filename)
        file.close()
        return refused(path)

    def test_a_table_that_claims_what_no_disk_holds(self, target: Any) -> None:
        """Sizes are checked against the file before memory is taken."""
        passes = target["passes"][()]
        passes["tokens_end"][-1] = 2**58
        target["passes"][...] = passes
        claim(target, "tokens", 2**58)
        assert "more than the file can hold" in self.spoilt(target)

    def test_commits_that_claim_what_no_disk_holds(self, target: Any) -> None:
        """The commit records too."""
        claim(target, "passes", 2**50)
        assert "more than the file can hold" in self.spoilt(target)

    def test_rows_that_are_not_stored(self, target: Any) -> None:
        """A hole would read as zeros."""
        claim(target, "digests", len(target["digests"]))
        assert "damaged" in self.spoilt(target)

    def test_a_table_that_was_huge_once(self, target: Any) -> None:
        """HDF5 keeps looking for chunks up to the largest index that ever was."""
        rows = len(target["digests"])
        claim(target, "digests", 2**28)
        target["digests"][-1:] = 1
        target["digests"].resize((rows,))
        assert "damaged" in self.spoilt(target)

    def test_a_soft_link(self, target: Any) -> None:
        """Tables are in the file by their own name."""
        target.move("spans", "elsewhere")
        target["spans"] = h5py.SoftLink("/elsewhere")
        assert "link" in self.spoilt(target)

    def test_an_external_link(self, target: Any) -> None:
        """No other file is opened."""
        del target["spans"]
        target["spans"] = h5py.ExternalLink("/dev/zero", "/spans")
        assert "link" in self.spoilt(target)

    def test_a_virtual_table(self, target: Any, tmp_path: Path) -> None:
        """It would be made of other files, even to tell its size."""
        os.mkfifo(tmp_path / "pipe.h5")
        del target["digests"]
        layout = h5py.VirtualLayout((10,), "<u8", maxshape=(None,))
        source = h5py.VirtualSource(str(tmp_path / "pipe.h5"), "x", (10,), maxshape=(None,))
        layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
        target.create_virtual_dataset("digests", layout)
        assert "not stored plainly" in self.spoilt(target)

    def test_external_storage(self, target: Any, tmp_path: Path) -> None:
        """Its bytes would be those of any file of the reader's."""
        (tmp_path / "secret").write_bytes(bytes(8000))
        del target["digests"]
        outside = [(str(tmp_path / "secret"), 0, 8000)]
        target.create_dataset("digests", (1000,), "<u8", external=outside)
        assert "not stored plainly" in self.spoilt(target)

    def test_a_compressed_table(self, target: Any) -> None:
        """A kilobyte can unfold to gigabytes."""
        rows = target["digests"][()]
        del target["digests"]
        target.create_dataset("digests", data=rows, maxshape=(None,), compression="gzip")
        assert "not stored plainly" in self.spoilt(target)

    def test_a_group_in_place_of_a_table(self, target: Any) -> None:
        """Names alone make no dump."""
        del target["spans"]
        target.create_group("spans")
        assert "damaged" in self.spoilt(target)

    def test_a_type_by_name_in_place_of_a_table(self, target: Any) -> None:
        """Nor do types."""
        del target["spans"]
        target["spans"] = np.dtype("<u8")
        assert "damaged" in self.spoilt(target)

    def test_two_tables_that_are_one(self, target: Any) -> None:
        """Overlapping tables could claim more rows than the file has bytes for."""
        del target["text_ends"]
        target["text_ends"] = target["digests"]
        self.spoilt(target)

    def test_absurd_chunks(self, target: Any) -> None:
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
        with one_line(), Dump.open(path) as dump:
            use(dump)


def test_an_error_of_the_reader_itself_is_not_hidden(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what the file or HDF5 says becomes a word about the file."""

    def fail(*_: object) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(storage.StoredTable, "read", fail)
    with pytest.raises(AttributeError):
        Dump.open(whole)
