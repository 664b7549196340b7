"""Arithmetic that is not the same for a warm request and a cold one."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, Confidence, Verdict
from layerdiff_samples.cases import CASES
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reading import ATTENTION, HIT, TEXT
from tests.layerdiff_samples.hunting import compared, first, healthy, hunted, ruled_out

SUFFIX = len(TEXT) - HIT


@pytest.mark.parametrize(
    ("name", "cause", "tensor", "position"),
    [
        ("rope-offset", Cause.ROPE_OFFSET, "query", HIT),
        ("rope-offset-split", Cause.ROPE_OFFSET, "query", HIT),
        # Position 0 is not turned, whatever the frequencies.
        ("rope-regime", Cause.ROPE_REGIME, "query", 1),
        ("mask-seam", Cause.MASK_SEAM, "aux", HIT),
        ("partial-merge", Cause.PARTIAL_MERGE, "attention_out", HIT),
        ("compile-mode", Cause.COMPILE_MODE, "aux", HIT),
    ],
)
def test_the_cause_is_named_and_proved(
    name: str, cause: Cause, tensor: str, position: int, tmp_path: Path
) -> None:
    """In the attention layer, at the first token that it can change."""
    report = hunted(CASES[name], tmp_path)
    origin = first(report)
    assert (origin.cause, origin.confidence) == (cause, Confidence.PROVED)
    assert (origin.layer_index, origin.tensor) == (ATTENTION, tensor)
    assert origin.position == position
    assert {found.cause for found in report.origins} == {cause}
    assert Cause.SHAPE_DISPATCH not in origin.also


@pytest.mark.parametrize("name", ["rope-offset", "rope-offset-split", "rope-regime"])
def test_a_rotation_shows_in_queries_and_keys_alone(name: str, tmp_path: Path) -> None:
    """Values are not turned, and agree."""
    report = hunted(CASES[name], tmp_path)
    assert {origin.tensor for origin in report.origins} == {"query", "kv_key"}
    assert all("the values agree" in origin.evidence[0].fact for origin in report.origins)


def test_positions_that_restart_are_told(tmp_path: Path) -> None:
    """What the rotary embedding was given, and that the frequencies are the same."""
    origin = first(hunted(CASES["rope-offset"], tmp_path))
    assert f"position 0 for token {HIT}, and {HIT} in the baseline" in origin.evidence[0].fact
    assert ruled_out(origin, Cause.ROPE_REGIME)
    assert ruled_out(first(hunted(CASES["rope-regime"], tmp_path)), Cause.ROPE_OFFSET)


@pytest.mark.parametrize("name", ["rope-offset-split", "mask-seam"])
def test_a_split_cold_run_with_the_same_fault_clears_nothing(name: str, tmp_path: Path) -> None:
    """Its bits are those of the warm run, both wrong, and no shape is blamed."""
    report = hunted(CASES[name], tmp_path)
    split = next(control for control in report.controls if control.name == "cold-split")
    assert split.verdict is Verdict.IDENTICAL
    assert Cause.SHAPE_DISPATCH not in {origin.cause for origin in report.origins}


def test_the_seam_is_where_the_chunk_begins(tmp_path: Path) -> None:
    """All rows of the chunk, and only those; the masks are told."""
    origin = first(hunted(CASES["mask-seam"], tmp_path))
    assert origin.positions == SUFFIX
    assert origin.kernel.candidate is not None
    assert origin.kernel.baseline is not None
    assert origin.kernel.candidate.facts["mask"] != origin.kernel.baseline.facts["mask"]
    assert ruled_out(origin, Cause.STALE_READ)


def test_a_graph_is_told_from_what_it_was_captured_from(tmp_path: Path) -> None:
    """Both kernels with their modes; the difference is rounding."""
    origin = first(hunted(CASES["compile-mode"], tmp_path))
    sides = (origin.kernel.baseline, origin.kernel.candidate)
    assert [side and side.facts["mode"] for side in sides] == ["eager", "graph"]
    assert [side and side.name for side in sides] == ["several", "several_graph"]
    assert origin.severity.size.value == "rounding"
    assert ruled_out(origin, Cause.MASK_SEAM)


def test_a_mate_in_the_same_tile_changes_a_row(tmp_path: Path) -> None:
    """At the first decoded token, in the first layer that projects; alone, the row is right."""
    report = hunted(CASES["batch-composition"], tmp_path)
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.BATCH_COMPOSITION, Confidence.PROVED)
    assert (origin.layer_index, origin.position) == (0, len(TEXT))
    assert {found.cause for found in report.origins} == {Cause.BATCH_COMPOSITION}
    solo = next(control for control in report.controls if control.name == "solo")
    assert solo.verdict is Verdict.IDENTICAL


def test_frequencies_that_never_change_are_no_regime(tmp_path: Path) -> None:
    """The same rope, on texts that are too short for it."""
    report = hunted(CASES["rope-regime-short"], tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens["r1"] == HIT


@pytest.mark.parametrize("name", ["mask-seam", "batch-composition"])
def test_without_its_fault_a_case_is_identical(name: str, tmp_path: Path) -> None:
    """Other chunks, or batch mates, change nothing by themselves."""
    case = CASES[name]
    assert isinstance(case, SampleCase)
    report = compared(healthy(case), tmp_path)
    assert report.verdict is Verdict.IDENTICAL
