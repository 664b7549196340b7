"""The command without a screen: errors in one line, and what is printed instead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layerdiff.cli import main


@pytest.mark.parametrize(
    "arguments",
    [
        ["{cold}", "{folder}/missing.h5"],
        ["{folder}/missing.h5"],
        ["{cold}", "{foreign}"],
        ["{cold}::nobody", "{warm}"],
        ["{cold}::nobody"],
        ["{cold}", "{other}"],
        ["{cold}", "{warm}", "--pair", "r1"],
        ["{cold}", "{warm}", "--pair", "r1=nobody"],
        ["{cold}", "--pair", "r1=r1"],
    ],
)
@pytest.mark.parametrize("screen", [True, False])
def test_bad_input_is_one_line_before_any_screen(
    arguments: list[str],
    screen: bool,
    cold: Path,
    warm: Path,
    hostile: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Missing, foreign, nothing to pair: exit status 2, no traceback."""
    foreign = tmp_path / "foreign.h5"
    foreign.write_text("no dump")
    names = {"cold": cold, "warm": warm, "folder": tmp_path, "foreign": foreign, "other": hostile}
    monkeypatch.setattr("layerdiff_tui.command._no_screen", lambda: None if screen else "no tty")
    assert main(["tui", *(word.format(**names) for word in arguments)]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if "this is what" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("layerdiff: ")
    assert captured.out == ""


def test_without_a_terminal_it_prints_what_diff_prints(
    cold: Path, fault: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stdout, with one line on stderr that says why."""
    assert main(["diff", str(cold), str(fault)]) == 1
    expected = capsys.readouterr().out
    assert main(["tui", str(cold), str(fault)]) == 1
    captured = capsys.readouterr()
    assert captured.out == expected
    assert captured.err == (
        "layerdiff: there is no terminal; this is what 'layerdiff diff' prints\n"
    )


def test_without_a_terminal_one_dump_prints_what_show_prints(
    warm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when a request was named."""
    assert main(["show", str(warm)]) == 0
    expected = capsys.readouterr().out
    assert main(["tui", f"{warm}::r1"]) == 0
    assert capsys.readouterr().out == expected


def test_the_fallback_loads_no_textual(cold: Path, warm: Path) -> None:
    """A pipe needs no screen."""
    program = (
        "import sys; from layerdiff.cli import main; "
        f"main(['tui', {str(cold)!r}, {str(warm)!r}]); "
        "assert not any(name.split('.')[0] == 'textual' for name in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | {"TERM": "dumb"},
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("IDENTICAL")


def test_what_is_shown_is_worked_out_without_textual() -> None:
    """So that it can be tested alone and reused for other pictures."""
    program = (
        "import sys, layerdiff_tui.pairs, layerdiff_tui.singles, layerdiff_tui.opening, "
        "layerdiff_tui.grid_state, layerdiff_tui.ruler, layerdiff_tui.places; "
        "assert not any(name.split('.')[0] == 'textual' for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
