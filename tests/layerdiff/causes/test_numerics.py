"""Slack, pads, modes and ties: named where the facts say so, and not where they do not."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from layerdiff.model import Report
from layerdiff.vocabulary import Cause
from tests.layerdiff.causes.scene import DOWN, LENGTH, PLAIN, Take, compared

SEAM = 6
BENT = {("mixed", SEAM): 0.0}
ROUNDED = {("mixed", SEAM): 1 + 2 * DOWN}


def told(name: str, *values: object) -> list[dict[str, dict[str, object]]]:
    """One launch fact of the mixer, in several values."""
    return [{"mixed": {name: value}} for value in values]


def cause(report: Report) -> Cause:
    """Of the first origin."""
    return report.origins[0].cause


@pytest.mark.parametrize("rename", ["", "x."])
@pytest.mark.parametrize("chunks", [(), (SEAM,)])
def test_other_slack_is_a_stale_read(tmp_path: Path, chunks: tuple[int, ...], rename: str) -> None:
    """Owned rows agree; what no token owns does not."""
    clean, stale = told("slack", "00", "a7")
    candidate = Take(chunks=chunks, changed=BENT, facts=stale, rename=rename)
    assert cause(compared(tmp_path, Take(facts=clean, rename=rename), candidate)) is (
        Cause.STALE_READ
    )


def test_equal_slack_is_no_stale_read(tmp_path: Path) -> None:
    """Nor is a kernel that says nothing of its slack."""
    (clean,) = told("slack", "00")
    candidate = Take(chunks=(SEAM,), changed=BENT, facts=clean)
    first = compared(tmp_path, Take(facts=clean), candidate).origins[0]
    assert first.cause is Cause.UNKNOWN
    assert Cause.STALE_READ in {ruled.cause for ruled in first.ruled_out}
    assert cause(compared(tmp_path, PLAIN, candidate)) is Cause.UNKNOWN


@pytest.mark.parametrize(("chunks", "named"), [((), True), ((SEAM,), False)])
def test_rounding_beside_other_slack(tmp_path: Path, chunks: tuple[int, ...], named: bool) -> None:
    """Where the launch differs as well, rounding needs no slack to explain it."""
    clean, stale = told("slack", "00", "a7")
    candidate = Take(chunks=chunks, changed=ROUNDED, facts=stale)
    found = cause(compared(tmp_path, Take(facts=clean), candidate)) is Cause.STALE_READ
    assert found is named


def test_other_slack_of_unknown_size_is_not_guessed(tmp_path: Path) -> None:
    """Without sketches rounding cannot be excluded where the chunks differ."""
    clean, stale = told("slack", "00", "a7")
    candidate = Take(chunks=(SEAM,), changed=BENT, facts=stale, sketches=False)
    baseline = Take(facts=clean, sketches=False)
    assert cause(compared(tmp_path, baseline, candidate)) is Cause.UNKNOWN


@pytest.mark.parametrize("changed", [BENT, ROUNDED])
def test_another_mode(tmp_path: Path, changed: dict[tuple[str, int], float]) -> None:
    """Eager here, a graph there; the same mode explains nothing."""
    eager, graph = told("mode", "eager", "graph")
    candidate = Take(changed=changed, facts=graph)
    assert cause(compared(tmp_path, Take(facts=eager), candidate)) is Cause.COMPILE_MODE
    assert cause(compared(tmp_path, Take(facts=graph), candidate)) is not Cause.COMPILE_MODE


def test_another_mode_behind_other_inputs_is_no_origin(tmp_path: Path) -> None:
    """What comes in differs as much."""
    eager, graph = told("mode", "eager", "graph")
    changed = {("attended", SEAM): 0.0, **BENT}
    found = compared(tmp_path, Take(facts=eager), Take(changed=changed, facts=graph))
    assert Cause.COMPILE_MODE not in {origin.cause for origin in found.origins}


def test_pads_that_reach_a_state(tmp_path: Path) -> None:
    """Every row agrees, and the state that is left behind trailing pads does not."""
    changed = {("state", LENGTH): 0.0}
    first = compared(tmp_path, PLAIN, Take(changed=changed, pads=(0, 4))).origins[0]
    assert (first.cause, first.tensor, first.position) == (
        Cause.PAD_CONTAMINATION,
        "recurrent_state",
        LENGTH,
    )


@pytest.mark.parametrize("sketches", [True, False])
@pytest.mark.parametrize("pads", [(0, 4), None])
def test_the_same_pads_reach_nothing(
    tmp_path: Path, pads: tuple[int, int] | None, sketches: bool
) -> None:
    """Equal pads, or none, do not tell the arms apart."""
    changed = {("state", LENGTH): 0.0}
    baseline = Take(pads=pads, sketches=sketches)
    candidate = Take(changed=changed, pads=pads, sketches=sketches)
    assert cause(compared(tmp_path, baseline, candidate)) is Cause.UNKNOWN


def test_rounding_beside_pads_is_no_contamination(tmp_path: Path) -> None:
    """Pads make a pass wider, and a wider pass rounds otherwise."""
    changed = {("state", LENGTH): 1 + 2 * DOWN}
    found = compared(tmp_path, PLAIN, Take(changed=changed, pads=(0, 4)))
    assert cause(found) is not Cause.PAD_CONTAMINATION


def test_trailing_pads_do_not_reach_the_rows_before_them(tmp_path: Path) -> None:
    """A mixer's row comes before the pads; leading ones it can see."""
    assert cause(compared(tmp_path, PLAIN, Take(changed=BENT, pads=(0, 4)))) is Cause.UNKNOWN
    found = compared(tmp_path, PLAIN, Take(changed=BENT, pads=(4, 0)))
    assert cause(found) is Cause.PAD_CONTAMINATION


def tie(margin: float, choice: tuple[int, ...], scores: float = 1 + 2 * DOWN) -> Take:
    """Scores that differ by rounding from position 6 on, and a choice at 8 with a margin."""
    rows = {("margin", 8): [margin], ("choice", 8): choice}
    return Take(changed={("scores", SEAM): scores}, rows=rows)


NARROW = Take(rows={("margin", 8): [2e-7]})


@pytest.mark.parametrize("rename", ["", "x."])
def test_a_choice_that_flips_on_a_narrow_margin(tmp_path: Path, rename: str) -> None:
    """The margin is smaller than what the scores differ by."""
    narrow = Take(rows=NARROW.rows, rename=rename)
    candidate = Take(
        changed=tie(0, ()).changed, rows=tie(1e-7, (9, 10, 11, 40)).rows, rename=rename
    )
    found = compared(tmp_path, narrow, candidate)
    named = [origin for origin in found.origins if origin.cause is Cause.DISCRETE_TIE]
    assert [(origin.tensor, origin.position) for origin in named] == [("topk", 8)]
    assert named[0] is found.origins[0]


def test_a_margin_is_no_jump_by_itself(tmp_path: Path) -> None:
    """Rounding is a large part of a small margin; nothing flips."""
    candidate = Take(changed=tie(0, ()).changed, rows={("margin", 8): [3e-7]})
    found = compared(tmp_path, NARROW, candidate)
    assert {origin.tensor for origin in found.origins} == {"router"}


def test_a_choice_that_flips_on_a_wide_margin_is_no_tie(tmp_path: Path) -> None:
    """Scores that differ by rounding cannot turn it."""
    found = compared(tmp_path, PLAIN, tie(0.5, (9, 10, 11, 40)))
    flipped = next(origin for origin in found.origins if origin.tensor == "topk")
    assert flipped.cause is Cause.UNKNOWN
    assert Cause.DISCRETE_TIE in {ruled.cause for ruled in flipped.ruled_out}


def test_a_choice_without_a_margin_is_not_guessed(tmp_path: Path) -> None:
    """Nothing says how close it was."""
    baseline = Take(without=("margin",))
    candidate = Take(
        changed=tie(0, ()).changed, rows={("choice", 8): (9, 10, 11, 40)}, without=("margin",)
    )
    found = compared(tmp_path, baseline, candidate)
    assert Cause.DISCRETE_TIE not in {origin.cause for origin in found.origins}


def test_the_same_set_in_another_order(tmp_path: Path) -> None:
    """The ordered digests differ, those of the set do not; an exact tie says why."""
    rows: list[dict[tuple[str, int], Sequence[float]]] = [
        {("margin", 8): [0.0], ("choice", 8): choice}
        for choice in ([9, 10, 11, 12], [9, 10, 12, 11])
    ]
    first = compared(tmp_path, Take(rows=rows[0]), Take(rows=rows[1])).origins[0]
    assert first.cause is Cause.DISCRETE_TIE
    assert "the same set in another order" in first.evidence[0].fact


def test_chosen_ones_that_change_places_on_a_wide_margin(tmp_path: Path) -> None:
    """The margin parts the chosen from the others: among themselves it says nothing."""
    changed = tie(0, ()).changed
    rows: list[dict[tuple[str, int], Sequence[float]]] = [
        {("margin", 8): [0.5], ("choice", 8): choice}
        for choice in ([9, 10, 11, 12], [9, 10, 12, 11])
    ]
    found = compared(tmp_path, Take(rows=rows[0]), Take(changed=changed, rows=rows[1]))
    flipped = next(origin for origin in found.origins if origin.tensor == "topk")
    assert flipped.cause is Cause.DISCRETE_TIE
    assert "among those that were chosen" in flipped.evidence[0].fact
