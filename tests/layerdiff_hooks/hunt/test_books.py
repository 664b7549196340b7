"""A dump is reused only if nothing has changed that it depends on."""

import json
from pathlib import Path

import pytest

from layerdiff.errors import UsageError
from layerdiff_hooks.hunt.loading import load_case
from tests.layerdiff_hooks.hunt.hunts import hunt, write_case
from tests.layerdiff_hooks.hunt.toy_engine import case_with


def reused(said: list[str]) -> list[str]:
    """The arms whose dumps were taken as they were."""
    return [line.split()[1] for line in said if line.endswith("... reused")]


def test_fresh_runs_all_again(tmp_path: Path) -> None:
    """Nothing is reused."""
    hunt(case_with(""), tmp_path)
    assert reused(hunt(case_with(""), tmp_path, fresh=True).said) == []


def test_an_unfinished_dump_is_run_again(tmp_path: Path) -> None:
    """An arm that raised is not finished, though its dump was closed."""
    hunt(case_with("raise-off"), tmp_path)
    again = reused(hunt(case_with("raise-off"), tmp_path).said)
    assert "off" not in again
    assert "warm" in again


def test_a_damaged_dump_is_run_again(tmp_path: Path) -> None:
    """The others are kept."""
    hunt(case_with(""), tmp_path)
    (tmp_path / "cold.h5").write_bytes(b"no dump")
    assert "cold" not in reused(hunt(case_with(""), tmp_path).said)


def test_a_case_that_was_edited_is_run_again(tmp_path: Path) -> None:
    """And so is one whose sources changed."""
    data, dumps = tmp_path / "data.txt", tmp_path / "dumps"
    data.write_text("1")
    dumps.mkdir()
    body = "class Mine(ToyCase):\n    pass\n"
    path = write_case(tmp_path, "edited_case", body)

    def run() -> list[str]:
        case = load_case(str(path))
        case.sources = (data,)
        return hunt(case, dumps).said

    run()
    assert len(reused(run())) == 7
    path.write_text(path.read_text() + "\n# another line\n")
    said = run()
    assert reused(said) == []
    assert said[0] == f"nothing in {dumps} is reused: {path} has changed"
    data.write_text("2")
    assert reused(run()) == []
    assert len(reused(run())) == 7


def test_another_layerdiff_does_not_reuse(tmp_path: Path) -> None:
    """The version is in the books."""
    hunt(case_with(""), tmp_path)
    books = tmp_path / "hunt.json"
    document = json.loads(books.read_text())
    document["made_by"]["layerdiff"] = "0.0.1"
    books.write_text(json.dumps(document))
    said = hunt(case_with(""), tmp_path).said
    assert reused(said) == []
    assert "layerdiff was 0.0.1 and is " in said[0]


def test_broken_books_are_no_books(tmp_path: Path) -> None:
    """Then the dumps are those of nobody."""
    hunt(case_with(""), tmp_path)
    (tmp_path / "hunt.json").write_text("{")
    with pytest.raises(UsageError, match="no hunt made"):
        hunt(case_with(""), tmp_path)
    assert reused(hunt(case_with(""), tmp_path, fresh=True).said) == []


def test_dumps_of_others_are_not_replaced(tmp_path: Path) -> None:
    """Neither those of another case nor those that no hunt made."""
    hunt(case_with(""), tmp_path)
    before = (tmp_path / "cold.h5").read_bytes()
    with pytest.raises(UsageError, match="holds the dumps of case 'toy-healthy'"):
        hunt(case_with("zero"), tmp_path)
    assert (tmp_path / "cold.h5").read_bytes() == before
    other = tmp_path / "other"
    other.mkdir()
    (other / "cold.h5").write_bytes(before)
    with pytest.raises(UsageError, match="--fresh"):
        hunt(case_with(""), other)
