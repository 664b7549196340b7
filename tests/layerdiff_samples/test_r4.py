"""Replays from a checkpoint: one case a cause, each with what it could be mistaken for."""

from pathlib import Path

import pytest

from layerdiff.model import Origin, Report
from layerdiff.vocabulary import Cause, Confidence, Level, Verdict
from layerdiff_samples.cases import r4
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.engine.recurrent import chunked, sequential
from layerdiff_samples.faults.replay import staged, tail_split
from tests.layerdiff_samples.hunting import compared, first, healthy, hunted, ruled_out

CASES: dict[str, SampleCase] = {case.name: case for case in r4.CASES}
FAULTY = (
    *("r4-tail-split", "r4-kv-floor", "r4-kernel-mismatch", "r4-drafter-anchor"),
    *("r4-slot-compaction", "r4-stale-chunk-rows", "r4-never-warm", "r4-all"),
)
TWINS = tuple(sorted(CASES.keys() - set(FAULTY)))
"""Cases whose fault has nothing to bite on."""


def length(case: SampleCase, turn: str) -> int:
    """Tokens of a turn's prompt."""
    turns = (*case._asked, *case._fills, *case._mates)
    return next(len(t.tokens) for t in turns if t.name == turn)


def hit(report: Report, request: str = "r1") -> int:
    """What a request was served."""
    found = report.coverage.hit_tokens[request]
    assert found is not None
    return found


def kernels(origin: Origin) -> tuple[str, str]:
    """Names on both sides."""
    baseline, candidate = origin.kernel.baseline, origin.kernel.candidate
    assert baseline is not None
    assert candidate is not None
    return baseline.name, candidate.name


def control(report: Report, name: str) -> Verdict:
    """The verdict of one control."""
    return next(c.verdict for c in report.controls if c.name == name)


def proved(origin: Origin, cause: Cause) -> None:
    """The origin's cause and place are both decided by controls."""
    assert (origin.cause, origin.confidence) == (cause, Confidence.PROVED)
    assert origin.proved == ("location", "mechanism")


@pytest.mark.parametrize("name", FAULTY)
def test_without_its_fault_a_case_is_identical(name: str, tmp_path: Path) -> None:
    report = compared(healthy(CASES[name]), tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert hit(report) > 0
    assert not report.masked


@pytest.mark.parametrize("name", TWINS)
def test_a_fault_that_cannot_bite_shows_nothing(name: str, tmp_path: Path) -> None:
    report = compared(CASES[name], tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert hit(report) > 0


def test_a_tail_that_is_split_off_the_grid(tmp_path: Path) -> None:
    case = CASES["r4-tail-split"]
    report, split = hunted(case, tmp_path), tail_split(length(case, "r1"))
    assert split % case.config.chunk
    assert len(report.origins) == 1
    origin = first(report)
    proved(origin, Cause.SHAPE_DISPATCH)
    assert (origin.layer_index, origin.tensor, origin.position) == (0, "attention_out", split)
    assert kernels(origin) == (chunked.__name__, chunked.__name__)
    for cause in (Cause.STATE_IGNORED, Cause.KERNEL_MISMATCH, Cause.STALE_READ):
        ruled_out(origin, cause)
    assert control(report, "cold-split") is Verdict.IDENTICAL
    assert control(report, "poison-layer-0") is Verdict.DIVERGED
    assert control(report, "cold") is Verdict.DIVERGED


def test_the_tail_split_that_meets_the_grid_is_one_too() -> None:
    """The look-alike above is no vacuous one: its prompt is split as well."""
    case = CASES["r4-tail-split-on-grid"]
    assert tail_split(length(case, "r1")) % case.config.chunk == 0
    assert tail_split(length(case, "r1")) % case.config.block == 0


def test_rows_of_an_earlier_request_under_a_replayed_state(tmp_path: Path) -> None:
    case = CASES["r4-kv-floor"]
    report, split = hunted(case, tmp_path), tail_split(length(case, "fill"))
    assert hit(report) == case.config.stride
    assert {o.cause for o in report.origins} == {Cause.KV_MIXED_ORIGIN}
    origin = first(report)
    proved(origin, Cause.KV_MIXED_ORIGIN)
    assert (origin.layer_index, origin.tensor, origin.moment) == (1, "kv_key", "in")
    assert (origin.position, origin.positions) == (split, -split % case.config.block)
    fact = origin.evidence[0].fact
    assert f"request 'fill', pass 2, [{split}, {length(case, 'fill')})" in fact
    assert f"[{case.config.stride}, {2 * (case.config.stride or 0)})" in fact
    for cause in (Cause.KV_OVERWRITTEN, Cause.STATE_FOREIGN, Cause.STATE_CORRUPTED):
        ruled_out(origin, cause)
    assert control(report, "no-state") is Verdict.IDENTICAL
    assert control(report, "warm-repeat") is Verdict.IDENTICAL


def test_a_hit_that_takes_the_sequential_kernel(tmp_path: Path) -> None:
    report = hunted(CASES["r4-kernel-mismatch"], tmp_path)
    assert len(report.origins) == 1
    origin = first(report)
    proved(origin, Cause.KERNEL_MISMATCH)
    assert (origin.layer_index, origin.tensor, origin.position) == (
        0,
        "attention_out",
        hit(report),
    )
    assert kernels(origin) == (chunked.__name__, sequential.__name__)
    ruled_out(origin, Cause.SHAPE_DISPATCH)
    ruled_out(origin, Cause.STATE_IGNORED)
    agreeing = next(e.fact for e in origin.evidence if e.fact.startswith("inputs that agree"))
    for port in ("query", "key", "value", "decay", "beta", "recurrent"):
        assert f"layers.0:{port}" in agreeing
    assert control(report, "cold-split") is Verdict.DIVERGED


def test_a_drafter_that_goes_on_from_the_turn_before(tmp_path: Path) -> None:
    case = CASES["r4-drafter-anchor"]
    report = hunted(case, tmp_path)
    assert {(o.cause, o.role) for o in report.origins} == {(Cause.DRAFTER_STATE, "drafter")}
    origin = first(report)
    proved(origin, Cause.DRAFTER_STATE)
    assert (origin.tensor, origin.moment) == ("drafter_key", "in")
    assert origin.position == length(case, "turn")
    assert "cells of the target up to there agree" in origin.evidence[0].fact
    anchors = [o for o in report.origins if o.site == "drafter:source"]
    assert [o.position for o in anchors] == [hit(report)]
    assert report.outputs is not None
    assert report.outputs.logits_differ == 0


def test_a_slot_that_compaction_gives_to_two_sequences(tmp_path: Path) -> None:
    report = hunted(CASES["r4-slot-compaction"], tmp_path)
    assert {o.cause for o in report.origins} == {Cause.STATE_FOREIGN}
    origin = first(report)
    proved(origin, Cause.STATE_FOREIGN)
    assert (origin.tensor, origin.moment, origin.position) == ("conv_state", "in", hit(report))
    fact = origin.evidence[0].fact
    assert "held by requests 'long' and 'r1' at the same time" in fact
    assert "had been moved into it" in fact
    assert control(report, "solo") is Verdict.IDENTICAL
    ruled_out(origin, Cause.STATE_ZERO)
    ruled_out(origin, Cause.STATE_WRONG_POSITION)


def test_rows_that_an_earlier_call_left_behind_a_chunk(tmp_path: Path) -> None:
    report = hunted(CASES["r4-stale-chunk-rows"], tmp_path)
    assert len(report.origins) == 1
    origin = first(report)
    proved(origin, Cause.STALE_READ)
    assert (origin.layer_index, origin.tensor, origin.position) == (
        0,
        "attention_out",
        hit(report),
    )
    assert kernels(origin) == (staged.__name__, staged.__name__)
    baseline, candidate = origin.kernel.baseline, origin.kernel.candidate
    assert baseline is not None
    assert candidate is not None
    assert baseline.facts["slack"] != candidate.facts["slack"]
    assert control(report, "poison-slack") is Verdict.IDENTICAL
    ruled_out(origin, Cause.COMPILE_MODE)


def test_lookups_that_never_hit_test_nothing(tmp_path: Path) -> None:
    report = hunted(CASES["r4-never-warm"], tmp_path)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert [cause.cause for cause in report.arm_causes] == [Cause.NO_REUSE]
    assert not report.origins
    assert hit(report) == 0


def test_four_causes_at_once_are_three_origins_and_one_behind_them(tmp_path: Path) -> None:
    case = CASES["r4-all"]
    report = hunted(case, tmp_path)
    found: dict[Cause, Origin] = {}
    for origin in report.origins:
        found.setdefault(origin.cause, origin)
    proved(found[Cause.DRAFTER_STATE], Cause.DRAFTER_STATE)
    proved(found[Cause.KV_MIXED_ORIGIN], Cause.KV_MIXED_ORIGIN)
    proved(found[Cause.KERNEL_MISMATCH], Cause.KERNEL_MISMATCH)
    assert found[Cause.DRAFTER_STATE].position == length(case, "turn")
    assert found[Cause.KV_MIXED_ORIGIN].position == tail_split(length(case, "fill"))
    assert found[Cause.KERNEL_MISMATCH].position == hit(report)
    assert found.keys() <= {
        *(Cause.DRAFTER_STATE, Cause.KV_MIXED_ORIGIN, Cause.KERNEL_MISMATCH, Cause.DISCRETE_TIE),
    }
    (masked,) = report.masked
    assert (masked.cause, masked.layer_index) == (Cause.SHAPE_DISPATCH, 0)
    assert masked.position == tail_split(length(case, "r1"))
    assert masked.masked_by == found[Cause.KERNEL_MISMATCH].rank
    assert f"begins at {masked.position}" in masked.fact


def test_rounding_and_jumps_are_told_apart(tmp_path: Path) -> None:
    levels = {name: first(hunted(CASES[name], tmp_path)).level for name in FAULTY[:6]}
    jumps = {name for name, level in levels.items() if level is Level.JUMP}
    assert jumps == {"r4-drafter-anchor", "r4-slot-compaction", "r4-stale-chunk-rows"}
