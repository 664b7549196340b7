"""States and rows that are not kept up, and what each could be mistaken for."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, Confidence, EventKind, Level, Verdict
from layerdiff_hooks.hunt.arm import find_arm
from layerdiff_samples.cases import upkeep
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.faults.upkeep import chunked_anew, chunked_aside
from tests.layerdiff_samples.hunting import compared, first, healthy, hunted, ruled_out
from tests.layerdiff_samples.spying import Spy
from tests.layerdiff_samples.test_r4 import control, hit, kernels, length, proved

CASES: dict[str, SampleCase] = {case.name: case for case in upkeep.CASES}
TWINS = (
    *("upkeep-early-state-first-block", "upkeep-rollback-no-drafts"),
    *("upkeep-state-corrupted-unread", "upkeep-pads-same-length"),
    *("upkeep-kv-order-followed", "upkeep-kv-overwritten-room"),
)
FAULTY = tuple(sorted(CASES.keys() - set(TWINS)))


@pytest.mark.parametrize("name", FAULTY)
def test_without_its_fault_a_case_is_identical(name: str, tmp_path: Path) -> None:
    report = compared(healthy(CASES[name]), tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert hit(report) > 0


@pytest.mark.parametrize("name", TWINS)
def test_a_fault_that_cannot_bite_shows_nothing(name: str, tmp_path: Path) -> None:
    report = compared(CASES[name], tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert hit(report) > 0


@pytest.mark.parametrize(("name", "step"), [("upkeep-early-state", -1), ("upkeep-late-state", 1)])
def test_a_state_of_another_position(name: str, step: int, tmp_path: Path) -> None:
    report = hunted(CASES[name], tmp_path)
    assert {o.cause for o in report.origins} == {Cause.STATE_WRONG_POSITION}
    origin, position = first(report), hit(report)
    proved(origin, Cause.STATE_WRONG_POSITION)
    assert (origin.tensor, origin.position) == ("conv_state", position)
    other = position + step * CASES[name].config.block
    assert f"at position {position} is the state at position {other}" in origin.evidence[0].fact
    for cause in (Cause.STATE_ZERO, Cause.STATE_FOREIGN, Cause.STATE_CORRUPTED):
        ruled_out(origin, cause)


def test_a_state_that_is_ignored_warm_and_split_alike(tmp_path: Path) -> None:
    report = hunted(CASES["upkeep-state-ignored"], tmp_path)
    assert len(report.origins) == 1
    origin = first(report)
    proved(origin, Cause.STATE_IGNORED)
    assert (origin.layer_index, origin.tensor, origin.position) == (
        0,
        "attention_out",
        hit(report),
    )
    assert kernels(origin)[1] == chunked_anew.__name__
    ruled_out(origin, Cause.SHAPE_DISPATCH)
    assert control(report, "cold-split") is Verdict.IDENTICAL


def test_a_state_that_is_not_written_back(tmp_path: Path) -> None:
    case = CASES["upkeep-state-not-written"]
    report = hunted(case, tmp_path)
    assert {o.cause for o in report.origins} == {Cause.STATE_NOT_WRITTEN}
    origin, start = first(report), hit(report)
    proved(origin, Cause.STATE_NOT_WRITTEN)
    stop = start + case.config.block
    assert (origin.tensor, origin.moment) == ("recurrent_state", "out")
    assert (origin.layer_index, origin.position) == (0, stop)
    assert kernels(origin)[1] == chunked_aside.__name__
    assert f"[{start}, {stop}) consumed {stop - start} tokens" in origin.evidence[0].fact


def first_rejection(case: SampleCase) -> tuple[int, int]:
    """From where to where a healthy warm run of a case rejects drafts for the first time."""
    spy = Spy()
    healthy(case).run(find_arm("warm"), spy)
    told = (t for kind, name, t in spy.events if kind is EventKind.ROLLBACK and name == "r1")
    event = next(told)
    return event["start"], event["stop"]


def test_rejected_drafts_in_a_state(tmp_path: Path) -> None:
    case = CASES["upkeep-state-rollback"]
    report, (kept, stop) = hunted(case, tmp_path), first_rejection(case)
    assert {o.cause for o in report.origins} == {Cause.ROLLBACK_MISSING}
    origin = first(report)
    assert origin.confidence is Confidence.CONSISTENT
    assert (origin.tensor, origin.moment, origin.position) == ("conv_state", "in", kept)
    assert f"made at position {stop}" in origin.evidence[0].fact
    assert f"from {kept} on were rejected" in origin.evidence[0].fact
    ruled_out(origin, Cause.STATE_WRONG_POSITION)
    ruled_out(origin, Cause.STATE_FOREIGN)


def test_rejected_drafts_in_the_rows_of_a_cache(tmp_path: Path) -> None:
    case = CASES["upkeep-kv-rollback"]
    report, (kept, stop) = hunted(case, tmp_path), first_rejection(case)
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.ROLLBACK_MISSING, Confidence.CONSISTENT)
    assert (origin.layer_index, origin.tensor, origin.moment) == (1, "kv_key", "in")
    assert origin.position == kept
    assert f"holds {stop} rows" in origin.evidence[0].fact
    assert Cause.LAYOUT not in origin.also
    ruled_out(origin, Cause.KV_ORDER)


def test_a_bit_that_flips_in_a_saved_state(tmp_path: Path) -> None:
    report = hunted(CASES["upkeep-state-corrupted"], tmp_path)
    assert len(report.origins) == 1
    origin = first(report)
    proved(origin, Cause.STATE_CORRUPTED)
    assert (origin.layer_index, origin.tensor) == (0, "recurrent_state")
    assert origin.position == hit(report)
    for cause in (Cause.STATE_ZERO, Cause.STATE_FOREIGN, Cause.STATE_WRONG_POSITION):
        ruled_out(origin, cause)


def test_pads_that_run_through_the_convolution(tmp_path: Path) -> None:
    case = CASES["upkeep-pads"]
    report, end = hunted(case, tmp_path), length(CASES["upkeep-pads"], "r1")
    origin = first(report)
    proved(origin, Cause.PAD_CONTAMINATION)
    assert {o.cause for o in report.origins} == {Cause.PAD_CONTAMINATION}
    assert (origin.tensor, origin.moment, origin.position) == ("conv_state", "out", end)
    pads = case.config.block - end % case.config.block
    assert f"{pads} trailing pad rows" in origin.evidence[0].fact
    assert control(report, "solo") is Verdict.IDENTICAL


def test_rows_that_are_loaded_in_another_order(tmp_path: Path) -> None:
    report = hunted(CASES["upkeep-kv-order"], tmp_path)
    assert {o.cause for o in report.origins} == {Cause.KV_ORDER}
    origin = first(report)
    proved(origin, Cause.KV_ORDER)
    assert (origin.layer_index, origin.tensor, origin.moment) == (1, "kv_key", "in")
    assert origin.position == 1
    for cause in (Cause.KV_LENGTH, Cause.LAYOUT, Cause.STATE_FOREIGN, Cause.KV_OVERWRITTEN):
        ruled_out(origin, cause)


def test_a_block_that_is_found_after_others_wrote_into_it(tmp_path: Path) -> None:
    report = hunted(CASES["upkeep-kv-overwritten"], tmp_path)
    origin = first(report)
    proved(origin, Cause.KV_OVERWRITTEN)
    assert {o.cause for o in report.origins} == {Cause.KV_OVERWRITTEN}
    assert (origin.layer_index, origin.tensor, origin.moment) == (1, "kv_key", "in")
    assert "of request 'other'" in origin.evidence[0].fact
    # The least recently used block goes first, and of one prefix the deepest.
    assert origin.position == hit(report) - CASES["upkeep-kv-overwritten"].config.block
    ruled_out(origin, Cause.KV_MIXED_ORIGIN)
    ruled_out(origin, Cause.STATE_CORRUPTED)


def test_none_of_them_is_mistaken_for_rounding(tmp_path: Path) -> None:
    for name in FAULTY:
        assert first(hunted(CASES[name], tmp_path)).level is Level.JUMP
