"""Rotary embedding, mask and merge: named where the facts say so, and not where they do not."""

from dataclasses import replace
from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, Verdict
from tests.layerdiff.causes.scene import DOWN, LENGTH, PLAIN, Take, compared

SEAM = 6
SPLIT = Take(chunks=(SEAM,), rope=0)
BENT = {("key", SEAM): 0.0, ("parts", SEAM): 0.0}


def test_the_plain_scene_is_identical(tmp_path: Path) -> None:
    """The stage itself has no difference to explain."""
    found = compared(tmp_path, Take(rope=0), SPLIT)
    assert found.verdict is not Verdict.DIVERGED


@pytest.mark.parametrize("rename", ["", "x."])
def test_a_restarted_position_is_rope_offset(tmp_path: Path, rename: str) -> None:
    """The keys turn, the values do not, and the rotary embedding was given other positions."""
    baseline = Take(rope=0, rename=rename)
    candidate = Take(chunks=(SEAM,), rope=-SEAM, changed=BENT, rename=rename)
    first = compared(tmp_path, baseline, candidate).origins[0]
    assert (first.cause, first.position) == (Cause.ROPE_OFFSET, SEAM)
    assert any("given position 0 for token 6" in fact.fact for fact in first.evidence)


def test_keys_that_differ_at_the_right_position_are_no_rope_offset(tmp_path: Path) -> None:
    """Whatever turned them, the positions agree."""
    first = compared(tmp_path, Take(rope=0), replace(SPLIT, changed=BENT)).origins[0]
    assert first.cause is Cause.UNKNOWN
    assert Cause.ROPE_OFFSET in {ruled.cause for ruled in first.ruled_out}


def test_an_offset_that_both_arms_have_explains_nothing(tmp_path: Path) -> None:
    """Such as that of left pads."""
    baseline = Take(chunks=(SEAM,), rope=5)
    first = compared(tmp_path, baseline, replace(baseline, changed=BENT)).origins[0]
    assert first.cause is Cause.UNKNOWN


def test_values_that_differ_too_are_no_rope_offset(tmp_path: Path) -> None:
    """Values are not rotated: something before both is wrong."""
    bent = {**BENT, ("value", SEAM): 0.0}
    candidate = Take(chunks=(SEAM,), rope=-SEAM, changed=bent)
    causes = {origin.cause for origin in compared(tmp_path, Take(rope=0), candidate).origins}
    assert causes == {Cause.UNKNOWN}


def test_other_frequencies_are_a_rope_regime(tmp_path: Path) -> None:
    """The base grew with the length of the text."""
    told = [{"key": {"rope_base": base}} for base in (10000.0, 40000.0)]
    candidate = replace(SPLIT, changed=BENT, facts=told[1])
    first = compared(tmp_path, Take(rope=0, facts=told[0]), candidate).origins[0]
    assert first.cause is Cause.ROPE_REGIME
    candidate = replace(candidate, facts=told[0])
    first = compared(tmp_path, Take(rope=0, facts=told[0]), candidate).origins[0]
    assert first.cause is Cause.UNKNOWN


def masks(*anchors: int) -> list[dict[str, dict[str, object]]]:
    """Launch facts of the attention kernel."""
    return [{"parts": {"mask": {"kind": "causal", "anchor": anchor}}} for anchor in anchors]


@pytest.mark.parametrize("sketches", [True, False])
def test_another_mask_is_a_mask_seam(tmp_path: Path, sketches: bool) -> None:
    """Queries, keys and values agree, the output differs from the seam on."""
    cold, warm = masks(0, SEAM)
    bent = {("parts", SEAM): 0.0}
    candidate = Take(chunks=(SEAM,), changed=bent, facts=warm, sketches=sketches)
    first = compared(tmp_path, Take(facts=cold, sketches=sketches), candidate).origins[0]
    assert (first.cause, first.site, first.position) == (Cause.MASK_SEAM, "parts", SEAM)


def test_a_seam_without_another_mask_is_none(tmp_path: Path) -> None:
    """The same mask in both arms: something else in the kernel."""
    (told,) = masks(0)
    candidate = Take(chunks=(SEAM,), changed={("parts", SEAM): 0.0}, facts=told)
    first = compared(tmp_path, Take(facts=told), candidate).origins[0]
    assert first.cause is Cause.UNKNOWN
    assert Cause.MASK_SEAM in {ruled.cause for ruled in first.ruled_out}


def test_rounding_under_another_mask_is_no_seam(tmp_path: Path) -> None:
    """A mask that shows other rows changes more than the last bits."""
    cold, warm = masks(0, SEAM)
    candidate = Take(chunks=(SEAM,), changed={("parts", SEAM): 1 + 2 * DOWN}, facts=warm)
    first = compared(tmp_path, Take(facts=cold), candidate).origins[0]
    assert first.cause is not Cause.MASK_SEAM


def test_another_mask_over_keys_that_differ_is_no_origin(tmp_path: Path) -> None:
    """The keys come first, and the mask is not what they differ by."""
    cold, warm = masks(0, SEAM)
    candidate = Take(chunks=(SEAM,), changed=BENT, facts=warm)
    found = compared(tmp_path, Take(facts=cold), candidate)
    assert {origin.site for origin in found.origins} == {"key"}
    assert found.origins[0].cause is Cause.UNKNOWN


def test_parts_that_agree_and_a_merge_that_does_not(tmp_path: Path) -> None:
    """The partial results are the same bits."""
    told = {"parts": {"splits": 2}}
    candidate = Take(chunks=(SEAM,), changed={("attended", SEAM): 0.0}, facts=told)
    first = compared(tmp_path, Take(facts=told), candidate).origins[0]
    assert (first.cause, first.position) == (Cause.PARTIAL_MERGE, SEAM)


def test_a_projection_after_whole_attention_is_no_merge(tmp_path: Path) -> None:
    """Nothing was split, so nothing was merged."""
    candidate = Take(chunks=(SEAM,), changed={("attended", SEAM): 0.0})
    assert compared(tmp_path, PLAIN, candidate).origins[0].cause is Cause.UNKNOWN


def test_what_follows_the_merge_is_no_merge(tmp_path: Path) -> None:
    """The merge's own kernel says how many parts it took; its output is whole."""
    told = {"parts": {"splits": 2}, "attended": {"splits": 2}}
    candidate = Take(chunks=(SEAM,), changed={("mixed", SEAM): 0.0}, facts=told)
    first = compared(tmp_path, Take(facts=told), candidate).origins[0]
    assert (first.site, first.position) == ("mixed", SEAM)
    assert Cause.PARTIAL_MERGE not in {first.cause, *first.also}


def test_parts_that_differ_are_no_merge(tmp_path: Path) -> None:
    """Another split is the kernel's, and the merge follows."""
    told = {"parts": {"splits": 2}}
    bent = {("parts", LENGTH - 3): 0.0, ("attended", LENGTH - 3): 0.0}
    candidate = Take(chunks=(SEAM,), changed=bent, facts=told)
    first = compared(tmp_path, Take(facts=told), candidate).origins[0]
    assert (first.site, first.cause) == ("parts", Cause.UNKNOWN)
