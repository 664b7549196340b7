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
    controls = {control["name"]: control["verdict"] for control in report["controls"]}
    always = ("cold-repeat", "warm-repeat", "cold-split", "off")
    assert {controls[name] for name in always} == {"identical"}
    names = {path.stem for path in (tmp_path / "dumps").glob("*.h5")}
    assert names == {"cold", "warm", *controls}
    assert main(["show", str(tmp_path / "dumps" / "warm.h5")]) == 0
    assert "hit 70 from 'fill'" in capsys.readouterr().out


def test_the_planted_fault_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """One bit of the copied cache: the cell, the cause, and the control that convicts."""
    status = main(["demo", "--fault", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    first = report["origins"][0]
    assert status == 1
    assert (first["layer_index"], first["position"], first["tensor"]) == (3, 24, "kv_key")
    assert (first["cause"], first["confidence"]) == ("state-corrupted", "proved")
    controls = {control["name"]: control["verdict"] for control in report["controls"]}
    assert (controls["cold-split"], controls["no-state"]) == ("diverged", "identical")


def test_what_is_only_another_shape_is_not_blamed_on_the_cache(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where this machine's kernels give other bits at another shape, that is what is said."""
    for prefix in ("64", "70", "96"):
        main(["demo", "--prefix", prefix, "--format", "json"])
        report = json.loads(capsys.readouterr().out)
        assert {origin["cause"] for origin in report["origins"]} <= {"shape-dispatch"}


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
    assert "no hunt made" in capsys.readouterr().err


def test_a_case_of_the_sample_engine_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Listed, run, and answered in the first line."""
    assert main(["demo", "--list"]) == 0
    assert "r3-zero-state" in capsys.readouterr().out
    assert main(["demo", "r3-zero-state"]) == 1
    assert "state-zero, proved" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("words", [["r3-zero-stat"], ["r3-zero-state", "--prefix", "3"]])
def test_wrong_words_get_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is nearly one, and a switch that belongs to another demo."""
    assert main(["demo", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1
