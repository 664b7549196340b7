"""What was given out: buffers, sampled tokens, ties, and what equal text is worth."""

import json
from pathlib import Path

import pytest

from layerdiff.model import Outputs, Report
from layerdiff.render.json import report_document
from layerdiff.render.text import render_text
from layerdiff.vocabulary import Cause
from tests.layerdiff.causes.scene import DOWN, PLAIN, TOKENS, Take, compared

SEAM = 6
OTHER = (*TOKENS[:9], 99, *TOKENS[10:])
"""Differs from position 9 on."""


def outputs(report: Report) -> Outputs:
    """Of a report that has them."""
    assert report.outputs is not None
    return report.outputs


@pytest.mark.parametrize("rename", ["", "x."])
def test_reported_logits_of_another_buffer(tmp_path: Path, rename: str) -> None:
    """The head agrees, what is reported does not."""
    candidate = Take(changed={("reported", SEAM): 0.0}, rename=rename)
    first = compared(tmp_path, Take(rename=rename), candidate).origins[0]
    assert (first.cause, first.position) == (Cause.OUTPUT_BUFFER, SEAM)


@pytest.mark.parametrize("changed", [{("head", SEAM): 0.0}, {("reported", SEAM): 1 + 2 * DOWN}])
def test_other_logits_are_not_the_buffers(
    tmp_path: Path, changed: dict[tuple[str, int], float]
) -> None:
    """The head itself, or rounding on the way from it."""
    assert compared(tmp_path, PLAIN, Take(changed=changed)).origins[0].cause is Cause.UNKNOWN


def test_a_token_that_flips_though_its_logits_agree(tmp_path: Path) -> None:
    """Nothing before it differs."""
    report = compared(tmp_path, Take(given=4), Take(given=4, tokens=OTHER))
    first = report.origins[0]
    assert (first.tensor, first.position, first.cause) == ("tokens", 9, Cause.OUTPUT_BUFFER)
    assert (outputs(report).first_flip, outputs(report).texts_differ) == (9, 1)
    assert outputs(report).tokens_compared == 6


def test_tokens_that_were_drawn_or_asked_for_otherwise(tmp_path: Path) -> None:
    """Chance, or another request, is no buffer."""
    drawn, greedy = ({"sampling": {"temperature": t}} for t in (0.8, 0.0))
    found = []
    for base, cand in ((drawn, drawn), (greedy, drawn), (greedy, greedy)):
        baseline = Take(given=4, header=base)
        candidate = Take(given=4, header=cand, tokens=OTHER)
        found.append(compared(tmp_path, baseline, candidate).origins[0].cause)
    assert found == [Cause.UNKNOWN, Cause.REQUEST_MISMATCH, Cause.OUTPUT_BUFFER]


def test_a_token_that_flips_behind_logits_that_differ(tmp_path: Path) -> None:
    """It follows from them, and counts as their reach."""
    candidate = Take(given=4, tokens=OTHER, changed={("expert", 8): 0.0, ("head", 8): 0.0})
    report = compared(tmp_path, Take(given=4), candidate)
    assert {origin.tensor for origin in report.origins} == {"hidden"}
    assert report.origins[0].reach.top1_flips == 1


def test_equal_text_is_no_evidence(tmp_path: Path) -> None:
    """The tokens agree and rows do not: the report says what that is worth."""
    report = compared(tmp_path, Take(given=4), Take(given=4, changed={("head", SEAM): 0.0}))
    assert outputs(report).first_flip is None
    assert "no evidence" in render_text(report)
    assert report.origins[0].reach.top1_flips == 0
    document = json.loads(json.dumps(report_document(report)))
    assert document["outputs"]["tokens_compared"] == 8
    clean = compared(tmp_path, Take(given=4), Take(given=4))
    assert "no evidence" not in render_text(clean)


PLAIN_BEST = (13, 14, 15, 16)


@pytest.mark.parametrize(
    ("best", "changed", "word"),
    [
        ((14, 13, 15, 16), {}, "reorder"),
        ((14, 13, 15, 16), {("head", SEAM): 0.0, ("reported", SEAM): 0.0}, "shift"),
        (PLAIN_BEST, {("head", SEAM): 0.0, ("reported", SEAM): 0.0}, "shift"),
        ((13, 14, 15, 77), {}, "flip"),
        (PLAIN_BEST, {}, None),
    ],
)
def test_ties_told_from_a_shift_of_values(
    tmp_path: Path,
    best: tuple[int, ...],
    changed: dict[tuple[str, int], float],
    word: str | None,
) -> None:
    """By the best tokens in the engine's order, and as a set."""
    baseline = Take(rows={("best", 8): PLAIN_BEST})
    candidate = Take(rows={("best", 8): best}, changed=changed)
    assert outputs(compared(tmp_path, baseline, candidate)).topk == word


def test_accepted_drafts_are_counted(tmp_path: Path) -> None:
    """Rounds that both arms ran from the same position."""
    report = compared(tmp_path, Take(accepted={4: 3, 8: 2}), Take(accepted={4: 3, 8: 0}))
    assert outputs(report).accepted_differ == 1
    assert outputs(compared(tmp_path, PLAIN, PLAIN)).accepted_differ is None
