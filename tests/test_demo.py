"""``layerdiff demo``, as the README prints it."""

import json
from pathlib import Path

import pytest

from layerdiff.cli import main


def test_the_demo_answers_with_its_controls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repeats agree, split agrees with warm, and the exit status is the verdict's."""
    status = main(["demo", "--keep", str(tmp_path / "dumps"), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert status == {"identical": 0, "diverged": 1, "inconclusive": 3}[report["verdict"]]
    assert [control["name"] for control in report["controls"]] == [
        "cold-repeat", "warm-repeat", "cold-split"
    ]  # fmt: skip
    assert {control["verdict"] for control in report["controls"]} == {"identical"}
    names = {path.name for path in (tmp_path / "dumps").iterdir()}
    assert names == {
        f"{arm}.h5" for arm in ("cold", "cold-repeat", "cold-split", "warm", "warm-repeat")
    }
    assert main(["show", str(tmp_path / "dumps" / "warm.h5")]) == 0
    assert "hit 70 from 'fill'" in capsys.readouterr().out


def test_the_planted_fault_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """One bit of the copied cache: the cell, the cause, and the control that convicts."""
    status = main(["demo", "--fault", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    first = report["origins"][0]
    assert status == 1
    assert (first["layer_index"], first["position"], first["tensor"]) == (3, 24, "kv_key")
    assert first["cause"] == "state-corrupted"
    assert report["controls"][-1]["verdict"] == "diverged"


def test_a_prefix_outside_the_prompt_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit 2, before anything is built."""
    assert main(["demo", "--prefix", "200"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_dumps_that_are_there_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run into the same folder is refused, and the first one's dumps stay."""
    (tmp_path / "cold.h5").write_bytes(b"precious")
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert (tmp_path / "cold.h5").read_bytes() == b"precious"
    assert "exists" in capsys.readouterr().err
