"""The command line: help that teaches, wrong words, missing extras."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from layerdiff import cli
from layerdiff.cli import main
from layerdiff.testing import DumpBuilder, ToyRequest, toy_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two requests, the second on the cache of the first."""
    requests = [ToyRequest("fill", (1, 2, 3)), ToyRequest("r1", (1, 2, 3, 4, 5), takes="fill")]
    return toy_dump(tmp_path / "warm.h5", requests, arm="warm")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of packages that are not loaded for it."""
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("diff", "show", "record", "demo", "tui"))


@pytest.mark.parametrize("words", [["diff"], ["show"], ["diff", "--help"], ["show", "--help"]])
def test_a_command_says_how_it_is_used(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Usage with the exit statuses, or a line that names what is missing."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    captured = capsys.readouterr()
    assert stopped.value.code == (0 if "--help" in words else 2)
    assert "exit status" in captured.out or "required" in captured.err


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """And the status says that nothing was done."""
    assert main([]) == 2
    assert "layerdiff demo" in capsys.readouterr().out


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """2, and the known ones are named."""
    with pytest.raises(SystemExit) as stopped:
        main(["dif"])
    assert stopped.value.code == 2
    assert "diff" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says what to install."""
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert main(["tui", "a.h5"]) == 2
    assert "pip install 'layerdiff[tui]'" in capsys.readouterr().err


def test_names_in_messages_are_not_sent_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An escape sequence in a path is shown, not obeyed."""
    assert main(["show", "no\x1b[31msuch\nfile.h5"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_show_lists_what_a_dump_holds(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arm, requests with hits, chunk bounds, layers, coverage."""
    assert main(["show", str(dump)]) == 0
    out = capsys.readouterr().out
    for words in ("arm warm, complete", "hit 3 from 'fill'", "'r1' [3, 5)", "layer 1", "coverage"):
        assert words in out


def test_show_points_filters_by_glob(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The glob of a recording lists the same sites; one that matches nothing is an error."""
    assert main(["show", str(dump), "--points", "*.layers.1.*:key"]) == 0
    assert capsys.readouterr().out.split()[0] == "model.layers.1.self_attn:key"
    assert main(["show", str(dump), "--points"]) == 0
    assert "lm_head:out" in capsys.readouterr().out
    assert main(["show", str(dump), "--points", "nothing*"]) == 2


def test_a_folder_of_ranks_stands_for_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks are compared one by one, and the worst of them is the answer."""
    for arm in ("a", "b"):
        (tmp_path / arm).mkdir()
        for rank in (0, 1):
            path = tmp_path / arm / f"rank{rank}.h5"
            with DumpBuilder(path, arm="run", header={"rank": rank}) as builder:
                request = builder.request("r1", (1, 2))
                builder.site("model.layers.0:out", layer_index=0)
                values = np.ones((2, 4), np.float32) * (2 if arm == "b" and rank else 1)
                builder.observe("model.layers.0:out", values, [(request, 0, 2)])
                builder.commit([(request, 0, 2)])
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "a")]) == 0
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "rank0.h5 identical, rank1.h5 diverged" in capsys.readouterr().out
    (tmp_path / "b" / "rank1.h5").unlink()
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2


def test_the_module_can_be_run() -> None:
    """``python -m layerdiff`` is the same program."""
    done = subprocess.run(
        [sys.executable, "-m", "layerdiff", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("layerdiff ")
