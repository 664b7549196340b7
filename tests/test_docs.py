"""What the documents list is what the code knows."""

import re
from pathlib import Path

from layerdiff.controls.deciding import DECIDED_BY
from layerdiff.vocabulary import Cause

CAUSES = (Path(__file__).parents[1] / "docs" / "causes.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-z-]+)` \|.*\|([^|]*)\|$", CAUSES, re.MULTILINE)


def test_every_cause_stands_in_the_order_of_precedence() -> None:
    """The page says which of several causes is named, so its order must be the code's."""
    assert [name for name, _ in ROWS] == [cause.value for cause in Cause]


def test_the_control_that_proves_a_cause_is_the_one_that_is_run() -> None:
    """Where one control takes a cause away, the page names it."""
    for name, control in ROWS:
        expected = DECIDED_BY.get(Cause(name))
        if expected is not None:
            assert control.strip().startswith(expected), name
