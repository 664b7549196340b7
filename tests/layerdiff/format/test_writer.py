"""The writer: interning, commits, and what it survives."""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from layerdiff.errors import CaptureError
from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.format.table import TableWriter
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import Phase


def some_digests(first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Digests that tell their own index."""
    return np.arange(first, first + count, dtype=np.uint64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a dump may be made."""
    return tmp_path / "run.h5"


class TestText:
    def test_the_same_text_has_the_same_id(self, path: Path) -> None:
        """Text is interned, so that ids can be compared in place of it."""
        writer = DumpWriter(path, {"arm": "cold"})
        first = writer.text("model.layers.0:out")
        assert writer.text("model.layers.0:in") != first
        assert writer.text("model.layers.0:out") == first

    def test_text_zero_is_the_header(self, path: Path) -> None:
        """A reader in another language finds the header without knowing any id."""
        writer = DumpWriter(path, {"arm": "warm", "engine": {"name": "toy"}})
        writer.close()
        with Dump.open(path) as dump:
            header = json.loads(dump.text(0))
        assert header["arm"] == "warm"
        assert header["engine"] == {"name": "toy"}
        assert header["digest"] == schema.DIGEST_ALGORITHM

    def test_names_of_dtypes_have_ids_that_fit_their_column(self, path: Path) -> None:
        """They are interned first, however many texts a long run makes later."""
        writer = DumpWriter(path, {"arm": "cold"})
        assert writer.text("bfloat16") < 100
        assert writer.text("int64") < 100

    def test_a_lone_surrogate_is_kept_readable(self, path: Path) -> None:
        """File names may hold bytes that are no text; they must not stop a recording."""
        writer = DumpWriter(path, {"arm": "cold"})
        name = writer.text("odd \udcff name")
        writer.close()
        with Dump.open(path) as dump:
            assert dump.text(name) == "odd \\udcff name"


class TestAppend:
    def test_indices_count_what_is_buffered(self, path: Path) -> None:
        """Records can refer to others of the same pass."""
        writer = DumpWriter(path, {"arm": "cold"})
        assert writer.append("digests", some_digests(0, 3)) == 0
        assert writer.append("digests", some_digests(3, 4)) == 3
        writer.commit(phase=Phase.PREFILL)
        assert writer.append("digests", some_digests(7, 1)) == 7

    def test_records_are_copied(self, path: Path) -> None:
        """The caller may use its buffer again at once."""
        writer = DumpWriter(path, {"arm": "cold"})
        buffer = some_digests(0, 3)
        writer.append("digests", buffer)
        buffer[:] = 9
        writer.close()
        with Dump.open(path) as dump:
            assert dump.digests(0, 3).tolist() == [0, 1, 2]

    def test_records_of_the_wrong_shape_are_refused(self, path: Path) -> None:
        """A sketch has five numbers."""
        writer = DumpWriter(path, {"arm": "cold"})
        with pytest.raises(ValueError, match="sketches"):
            writer.append("sketches", np.zeros((3, 4), np.float32))


class TestCommit:
    def test_nothing_shows_before_the_commit(self, path: Path) -> None:
        """A pass is there whole or not at all."""
        writer = DumpWriter(path, {"arm": "cold"})
        writer.append("digests", some_digests(0, 3))
        with Dump.open(path) as dump:
            assert dump.digest_count == 0
        writer.commit(phase=Phase.PREFILL)
        with Dump.open(path) as dump:
            assert dump.digests(0, 3).tolist() == [0, 1, 2]

    def test_it_tells_the_index_of_the_pass(self, path: Path) -> None:
        """The property names the index before, the call returns it."""
        writer = DumpWriter(path, {"arm": "cold"})
        assert writer.pass_index == 0
        assert [writer.commit(phase=Phase.DECODE) for _ in range(3)] == [0, 1, 2]
        assert writer.pass_index == 3

    def test_sketches_are_for_all_digests_or_for_none(self, path: Path) -> None:
        """They share their index."""
        writer = DumpWriter(path, {"arm": "cold"})
        writer.append("digests", some_digests(0, 2))
        writer.append("sketches", np.zeros((1, 5), np.float32))
        with pytest.raises(ValueError, match="sketch"):
            writer.commit(phase=Phase.PREFILL)

    def test_an_interrupted_commit_can_be_made_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C between two tables loses and doubles nothing."""
        writer = DumpWriter(path, {"arm": "cold"})
        write = TableWriter.write
        for interrupted in range(4):
            calls = iter(range(99))

            def interrupt(
                table: TableWriter, first: int, records: np.ndarray, at: int = interrupted
            ) -> None:
                write(table, first, records)
                if next(calls) == at:  # noqa: B023
                    raise KeyboardInterrupt

            writer.text(f"text {interrupted}")
            writer.append("digests", some_digests(10 * interrupted, 10))
            writer.append("spans", np.array([(interrupted, 0, 0, 1)], schema.SPAN))
            writer.append("requests", np.zeros(1, schema.REQUEST))
            monkeypatch.setattr(TableWriter, "write", interrupt)
            with pytest.raises(KeyboardInterrupt):
                writer.commit(phase=Phase.PREFILL)
            monkeypatch.setattr(TableWriter, "write", write)
            assert writer.commit(phase=Phase.PREFILL) == interrupted
        writer.close()
        with Dump.open(path) as dump:
            assert dump.digests(0, dump.digest_count).tolist() == list(range(40))
            assert dump.spans["rowset"].tolist() == [0, 1, 2, 3]
            assert len(dump.model_passes) == 4


class TestClose:
    def test_it_marks_a_clean_end_once(self, path: Path) -> None:
        """Closing again, or never having committed, does no harm."""
        writer = DumpWriter(path, {"arm": "cold"})
        writer.close()
        writer.close()
        with Dump.open(path) as dump:
            assert dump.closed
            assert len(dump.passes) == 1

    def test_it_writes_what_is_buffered(self, path: Path) -> None:
        """The last observations of a run have no pass of the model to go with."""
        writer = DumpWriter(path, {"arm": "cold"})
        writer.commit(phase=Phase.PREFILL)
        writer.append("digests", some_digests(0, 5))
        writer.close()
        with Dump.open(path) as dump:
            assert dump.digest_count == 5
            assert dump.model_passes.tolist() == [0]

    def test_a_closed_dump_takes_no_commit(self, path: Path) -> None:
        """The error says so in one line."""
        writer = DumpWriter(path, {"arm": "cold"})
        writer.close()
        with pytest.raises(CaptureError, match="closed"):
            writer.commit(phase=Phase.PREFILL)


class TestRefusals:
    def test_a_file_that_exists_is_left_alone(self, path: Path) -> None:
        """A recording never destroys an earlier one unasked."""
        path.write_text("precious")
        with pytest.raises(CaptureError, match="exists"):
            DumpWriter(path, {"arm": "cold"})
        assert path.read_text() == "precious"

    def test_a_file_is_replaced_when_asked(self, path: Path) -> None:
        """A reader that holds the old dump keeps it."""
        old = DumpWriter(path, {"arm": "cold"})
        old.close()
        with Dump.open(path) as before:
            DumpWriter(path, {"arm": "warm"}, overwrite=True).close()
            with Dump.open(path) as after:
                assert (before.arm, after.arm) == ("cold", "warm")

    @pytest.mark.parametrize(
        ("name", "problem"),
        [("none/run.h5", "folder"), ("", "exists"), ("x" * 300, "long"), ("a\0b.h5", "zero byte")],
    )
    def test_a_place_where_no_file_can_be_is_named(
        self, tmp_path: Path, name: str, problem: str
    ) -> None:
        """One line says what is wrong."""
        with pytest.raises(CaptureError, match=problem) as caught:
            DumpWriter(tmp_path / name, {"arm": "cold"})
        assert len(str(caught.value).splitlines()) == 1

    @pytest.mark.parametrize("header", [{}, {"arm": 3}, {"arm": "a", "x": object()}])
    def test_a_header_that_says_no_arm_or_is_no_json_is_refused(
        self, path: Path, header: dict[str, object]
    ) -> None:
        """Before a file is made."""
        with pytest.raises(CaptureError, match="header"):
            DumpWriter(path, header)
        assert not path.exists()

    def test_numbers_that_json_cannot_hold_become_words(self, path: Path) -> None:
        """A configuration may hold an infinity."""
        DumpWriter(path, {"arm": "cold", "limits": [float("inf"), 1.5]}).close()
        with Dump.open(path) as dump:
            assert dump.header["limits"] == ["inf", 1.5]


def _fill_the_disk(path: Path, limit: int, passes: "multiprocessing.Queue[object]") -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    writer = DumpWriter(path, {"arm": "cold"})
    try:
        while True:
            writer.append("digests", some_digests(100 * writer.pass_index, 100))
            writer.text(f"text {writer.pass_index}")
            writer.commit(phase=Phase.DECODE)
    except CaptureError as error:
        passes.put((writer.pass_index, str(error)))
    with pytest.raises(CaptureError):
        writer.commit(phase=Phase.DECODE)
    writer.close()


@pytest.mark.parametrize("limit", range(60_000, 300_000, 24_001))
def test_a_full_disk_stops_the_dump_and_nothing_else(path: Path, limit: int) -> None:
    """One line, a sound exit of the process, and every pass before it readable."""
    context = multiprocessing.get_context("fork")
    passes = context.Queue()
    child = context.Process(target=_fill_the_disk, args=(path, limit, passes))
    child.start()
    finished, message = passes.get(timeout=60)
    child.join()
    assert child.exitcode == 0
    assert len(message.splitlines()) == 1
    with Dump.open(path) as dump:
        assert len(dump.passes) == finished
        assert dump.digests(0, dump.digest_count).tolist() == list(range(100 * finished))
        assert not dump.complete


FORKING_PROGRAM = """
import os, sys
import numpy as np
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import Phase

def record(passes):
    for _ in range(passes):
        first = 100 * writer.pass_index
        writer.append("digests", np.arange(first, first + 100, dtype=np.uint64))
        writer.commit(phase=Phase.DECODE)

writer = DumpWriter(sys.argv[1], {"arm": "cold"})
record(3)
writer.append("digests", np.arange(300, 310, dtype=np.uint64))
if os.fork() == 0:
    writer.close()
    sys.exit(0)
_, status = os.wait()
assert status == 0, status
writer.append("digests", np.arange(310, 400, dtype=np.uint64))
writer.commit(phase=Phase.DECODE)
record(200)
writer.close()
"""


def test_a_forked_child_leaves_the_file_alone(path: Path) -> None:
    """A program that forks and lets its children exit still gets its dump."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FORKING_PROGRAM, str(path)]
    subprocess.run(command, env=environment, check=True, timeout=60)
    with Dump.open(path) as dump:
        assert dump.closed
        assert dump.digests(0, dump.digest_count).tolist() == list(range(100 * 204))
