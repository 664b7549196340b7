"""docs/cases.md: its example runs, and its table says what the code does."""

import re
from pathlib import Path

import pytest

from layerdiff_hooks.hunt.arm import ARMS, ORDER
from tests.layerdiff_hooks.hunt.hunts import command

DOCS = Path(__file__).parents[3] / "docs" / "cases.md"
FILE = re.compile(r"```\w+\n# (\w+\.\w+)\n(.+?)```", re.DOTALL)

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the docs are not installed")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files of the page."""
    for name, text in FILE.findall(DOCS.read_text()):
        (tmp_path / name).write_text(text)
    (tmp_path / "second.txt").write_text("3 1 4 1 5\n9 2 6\n")
    return tmp_path


@pytest.mark.parametrize("case", ["my_case.py", "my_case.toml"])
def test_the_example_finds_its_defect(
    files: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """The state comes back from the cache with fewer bits."""
    done = command(capsys, files / case)
    assert done.status == 1
    first = done.out.splitlines()[0]
    assert first.startswith("DIVERGED  layer 0 · token 5")
    assert "recurrent_state as read" in first


def test_the_table_of_arms() -> None:
    """The same booleans, and the same in the docstring."""
    row = re.compile(r"^\| `([\w-]+)` \| (yes|no) \| (yes|no) \| (yes|no) \| (yes|no) \| (yes|no)")
    said = {}
    for line in DOCS.read_text().splitlines():
        if found := row.match(line):
            said[found[1]] = tuple(word == "yes" for word in found.groups()[1:])
    assert said == {
        name: (arm.fill, arm.reuse, arm.caching, arm.restore, arm.mates)
        for name, arm in ARMS.items()
    }
    listed = re.findall(r"^1\. (.+?), or", DOCS.read_text(), re.MULTILINE)
    assert re.findall(r"`([\w-]+)`", listed[0]) == list(ORDER)
