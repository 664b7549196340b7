"""What the drafter looks back on: named while the target agrees, and not otherwise."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, Verdict
from tests.layerdiff.causes.scene import DOWN, PLAIN, Take, compared

SEAM = 6


@pytest.mark.parametrize("rename", ["", "x."])
def test_drafter_rows_that_were_left_by_another_turn(tmp_path: Path, rename: str) -> None:
    """The drafter's keys as read are not those of its context."""
    candidate = Take(chunks=(SEAM,), read={("drafted key", 3): 1.5}, rename=rename)
    first = compared(tmp_path, Take(rename=rename), candidate).origins[0]
    assert (first.cause, first.role, first.position) == (Cause.DRAFTER_STATE, "drafter", 3)


def test_a_broken_cache_of_the_target_is_not_the_drafters(tmp_path: Path) -> None:
    """The same fault, in the target's keys."""
    candidate = Take(chunks=(SEAM,), read={("key", 3): 1.5})
    assert compared(tmp_path, PLAIN, candidate).origins[0].cause is not Cause.DRAFTER_STATE


def test_hidden_rows_that_the_drafter_was_given(tmp_path: Path) -> None:
    """The target's rows agree, those handed over do not."""
    first = compared(tmp_path, PLAIN, Take(changed={("context", SEAM): 0.0})).origins[0]
    assert (first.cause, first.position) == (Cause.DRAFTER_STATE, SEAM)


def test_a_drafter_behind_a_target_that_differs(tmp_path: Path) -> None:
    """The drafter cannot be right when the target is not."""
    changed = {("value", 2): 0.0, ("context", SEAM): 0.0}
    found = compared(tmp_path, PLAIN, Take(changed=changed))
    assert Cause.DRAFTER_STATE not in {origin.cause for origin in found.origins}
    context = next(origin for origin in found.origins if origin.tensor == "drafter_hidden")
    assert Cause.DRAFTER_STATE in {ruled.cause for ruled in context.ruled_out}


@pytest.mark.parametrize("factor", [0.0, 1 + 2 * DOWN])
def test_a_kernel_of_the_drafter_is_not_its_state(tmp_path: Path, factor: float) -> None:
    """Hidden rows and keys agree, an output does not."""
    first = compared(tmp_path, PLAIN, Take(changed={("drafted", SEAM): factor})).origins[0]
    assert first.role == "drafter"
    assert first.cause is not Cause.DRAFTER_STATE


@pytest.mark.parametrize("fact", ["kv_len", "anchor"])
def test_a_context_of_another_length(tmp_path: Path, fact: str) -> None:
    """The kernel was told to look back on fewer rows."""
    long, short = ({"drafted": {fact: number}} for number in (12, 3))
    candidate = Take(changed={("drafted", SEAM): 0.0}, facts=short)
    first = compared(tmp_path, Take(facts=long), candidate).origins[0]
    assert first.cause is Cause.DRAFTER_STATE
    candidate = Take(changed={("drafted", SEAM): 0.0}, facts=long)
    first = compared(tmp_path, Take(facts=long), candidate).origins[0]
    assert first.cause is Cause.UNKNOWN


def test_a_cache_of_the_drafter_that_holds_fewer_rows(tmp_path: Path) -> None:
    """As its offset before the pass says."""
    whole, short = ({("drafted key", SEAM): rows} for rows in (SEAM, 2))
    baseline = Take(chunks=(SEAM,), offsets=whole)
    candidate = Take(chunks=(SEAM,), offsets=short, changed={("drafted", SEAM): 0.0})
    first = compared(tmp_path, baseline, candidate).origins[0]
    assert first.cause is Cause.DRAFTER_STATE
    assert "held 2 rows" in first.evidence[0].fact


@pytest.mark.parametrize(("accepted", "named"), [(1, True), (3, False)])
def test_a_round_that_accepted_fewer_drafts(tmp_path: Path, accepted: int, named: bool) -> None:
    """Before a row of the drafter differs; an equal count says nothing."""
    candidate = Take(accepted={SEAM: accepted}, changed={("drafted", SEAM + 2): 0.0})
    first = compared(tmp_path, Take(accepted={SEAM: 3}), candidate).origins[0]
    assert (first.cause is Cause.DRAFTER_STATE) is named


def test_accepted_drafts_alone_are_a_difference(tmp_path: Path) -> None:
    """Every cell agrees, and the drafter still did something else."""
    found = compared(tmp_path, Take(accepted={SEAM: 3}), Take(accepted={SEAM: 1}))
    assert found.verdict is Verdict.DIVERGED
    assert (found.origins[0].cause, found.origins[0].role) == (Cause.DRAFTER_STATE, "drafter")
    same = compared(tmp_path, Take(accepted={SEAM: 3}), Take(accepted={SEAM: 3}))
    assert not same.origins
