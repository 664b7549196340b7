"""``layerdiff hunt`` as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layerdiff_hooks.hunt.hunts import command, write_case


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """A case whose engine is sound."""
    return write_case(tmp_path, "healthy_case", "class Mine(ToyCase): ...")


def faulty(folder: Path, fault: str) -> Path:
    """A case with one fault."""
    name = f"faulty_{fault.replace('-', '_')}"
    return write_case(folder, name, f"class Mine(ToyCase):\n    fault = {fault!r}")


def test_the_report_is_all_of_stdout(healthy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Progress goes to stderr, one line an arm and one for the whole; no dumps stay behind."""
    done = command(capsys, healthy)
    assert done.status == 0
    assert done.out.startswith("IDENTICAL  ")
    lines = done.err.splitlines()
    assert [line.split(" ... ")[0] for line in lines[:2]] == [
        "running cold (1 of 6)",
        "running cold-repeat (2 of 6)",
    ]
    assert lines[-1].startswith("7 runs, ")
    assert "kept" not in lines[-1]


def test_a_difference_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the cause stands in the first line."""
    done = command(capsys, faulty(tmp_path, "zero"))
    assert done.status == 1
    assert done.out.startswith("DIVERGED  layer 0")
    assert "state-zero" in done.out.splitlines()[0]


def test_json_and_a_kept_folder(
    healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document goes where it should; the dumps are there and are reused."""
    report, dumps = tmp_path / "report.json", tmp_path / "new" / "dumps"
    words = (healthy, "--format", "json", "-o", report, "--keep", dumps)
    done = command(capsys, *words)
    assert (done.status, done.out) == (0, "")
    assert f"dumps kept in {dumps}" in done.err
    document = json.loads(report.read_text())
    assert document["verdict"] == "identical"
    assert document["candidate"]["path"] == str(dumps / "warm.h5")
    again = command(capsys, *words)
    assert "running warm (3 of 6) ... reused" in again.err
    assert "reused" not in command(capsys, *words, "--fresh").err


def test_some_arms(healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """These and no others, though baseline and candidate are always there."""
    dumps = tmp_path / "dumps"
    done = command(capsys, healthy, "--arms", "off,cold", "--keep", dumps)
    assert done.status == 0
    assert sorted(path.stem for path in dumps.glob("*.h5")) == ["cold", "off", "warm"]
    assert done.err.splitlines()[-1].startswith("3 runs, ")


def test_a_reference(healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for by an option; refused where the case has none."""
    assert "running reference (7 of 7)" in command(capsys, healthy, "--reference").err
    other = write_case(tmp_path, "plain_case", "class Mine(ToyCase):\n    can = frozenset()")
    assert "offers no reference" in command(capsys, other, "--reference").message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "hunt needs a case"),
        (("nowhere.py",), "there is no file nowhere.py"),
        (("CASE", "--arms", "cold,hot"), "there is no arm 'hot'"),
        (("CASE", "--keep", "/dev/null/x"), "--keep /dev/null/x: cannot make the folder"),
    ],
)
def test_wrong_words(
    healthy: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """One line, exit status 2, nothing on stdout."""
    done = command(capsys, *[healthy if word == "CASE" else word for word in words])
    assert (done.status, done.out) == (2, "")
    assert message in done.message


def test_an_engine_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its partial dump outlives even a temporary folder, and JSON has the error."""
    done = command(capsys, faulty(tmp_path, "raise-warm"), "--format", "json")
    assert done.status == 2
    assert "arm warm failed: ValueError: the pool is empty (toy_engine.py:" in done.message
    kept = Path(done.message.rpartition("what it recorded is in ")[2])
    assert kept.is_file()
    document = json.loads(done.out)
    assert document["error"] == done.message
    assert "on its way to stdout" in done.err
    for file in kept.parent.iterdir():
        file.unlink()
    kept.parent.rmdir()


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and titles, one a line."""
    done = command(capsys, "--list")
    assert done.status == 0


def test_from_the_shell(healthy: Path) -> None:
    """The entry point is there, and Python's own search path does not matter."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "layerdiff", "hunt", healthy.name],
        cwd=healthy.parent,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("IDENTICAL  ")
