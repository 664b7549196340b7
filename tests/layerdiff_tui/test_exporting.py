"""Reports in files."""

from pathlib import Path

import pytest

from layerdiff_tui.exporting import export, free_name

FORMATS = {".txt": "text", ".json": "{}"}


def test_the_suffix_chooses_the_format(tmp_path: Path) -> None:
    """Each file ends with one line end."""
    assert export(FORMATS, str(tmp_path / "a.txt")).read_text() == "text\n"
    assert export(FORMATS, str(tmp_path / "a.json")).read_text() == "{}\n"


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    """Nobody's work is overwritten."""
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(ValueError) as caught:
        export(FORMATS, str(tmp_path / "a.txt"))
    assert "is there already" in str(caught.value)
    assert (tmp_path / "a.txt").read_text() == "mine"


def test_the_name_offered_is_free(tmp_path: Path) -> None:
    """Exporting twice takes two files."""
    assert free_name(folder=tmp_path) == "layerdiff-report.txt"
    (tmp_path / "layerdiff-report.txt").touch()
    assert free_name(folder=tmp_path) == "layerdiff-report-2.txt"


@pytest.mark.parametrize("name", ["", "a.doc", "no/such/folder/a.txt", "bad\0name.txt", "x" * 999])
def test_what_cannot_be_written_says_why(tmp_path: Path, name: str) -> None:
    """Never a traceback."""
    with pytest.raises(ValueError):
        export(FORMATS, str(tmp_path / name) if name else name)
