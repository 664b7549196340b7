"""A prompt that is cached as a whole, a pass of one token, and a ring that has wrapped."""

from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, Confidence, TensorKind, Verdict
from layerdiff_samples.cases import r5
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.engine.attention import one_query, several
from tests.layerdiff_samples.hunting import compared, first, healthy, hunted, ruled_out


def test_a_whole_prompt_hit_holds_its_last_token_twice(tmp_path: Path) -> None:
    report = hunted(r5.WHOLE_PROMPT_HIT, tmp_path)
    assert report.verdict is Verdict.DIVERGED
    assert report.coverage.hit_tokens["r1"] == r5.BLOCKS - 1
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.KV_LENGTH, Confidence.PROVED)
    assert (origin.layer_index, origin.tensor, origin.moment) == (0, TensorKind.KV_KEY.word, "in")
    assert origin.position == r5.BLOCKS
    assert {o.cause for o in report.origins} == {Cause.KV_LENGTH}


def test_the_offset_of_every_layer_says_so(tmp_path: Path) -> None:
    report = hunted(r5.WHOLE_PROMPT_HIT, tmp_path)
    layers = {o.layer_index for o in report.origins}
    assert layers == set(range(len(r5.WHOLE_PROMPT_HIT.config.layers)))
    for origin in report.origins:
        fact = next(e.fact for e in origin.evidence if "rows before" in e.fact)
        assert f"holds {r5.BLOCKS} rows" in fact
        assert f"[{r5.BLOCKS - 1}, {r5.BLOCKS})" in fact
        assert f"where {r5.BLOCKS - 1} belong" in fact


def test_what_a_doubled_token_is_not(tmp_path: Path) -> None:
    origin = first(hunted(r5.WHOLE_PROMPT_HIT, tmp_path))
    for cause in (Cause.KV_ORDER, Cause.KV_OVERWRITTEN, Cause.STATE_FOREIGN):
        ruled_out(origin, cause)


def test_a_pass_of_one_token_is_dispatched_otherwise(tmp_path: Path) -> None:
    report = hunted(r5.ONE_TOKEN_PASS, tmp_path)
    assert report.verdict is Verdict.DIVERGED
    assert report.coverage.hit_tokens["r1"] == r5.BLOCKS
    assert len(report.origins) == 1
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.SHAPE_DISPATCH, Confidence.PROVED)
    assert (origin.layer_index, origin.position) == (0, r5.BLOCKS)
    names = [side.name for side in (origin.kernel.baseline, origin.kernel.candidate) if side]
    assert names == [several.__name__, one_query.__name__]
    assert not report.masked


def test_the_offset_excludes_a_doubled_token_there(tmp_path: Path) -> None:
    origin = first(hunted(r5.ONE_TOKEN_PASS, tmp_path))
    because = ruled_out(origin, Cause.KV_LENGTH).because
    assert f"holds {r5.BLOCKS} rows" in because
    assert f"[{r5.BLOCKS}, {r5.BLOCKS + 1})" in because


def test_a_ring_that_has_wrapped_lost_rows(tmp_path: Path) -> None:
    case = r5.WRAPPED_RING
    report = hunted(case, tmp_path)
    assert report.verdict is Verdict.DIVERGED
    hit = report.coverage.hit_tokens["r1"]
    assert hit is not None
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.KV_LENGTH, Confidence.PROVED)
    assert (origin.layer_index, origin.tensor, origin.moment) == (0, TensorKind.KV_KEY.word, "in")
    seen = hit - case.config.window + 1
    lost = r5.FILLED - case.config.ring
    assert (origin.position, origin.positions) == (seen, lost - seen)
    facts = " ".join(e.fact for e in origin.evidence)
    assert f"{case.config.ring} positions later" in facts
    sliding = {i for i, kind in enumerate(case.config.layers) if kind == "s"}
    assert {o.layer_index for o in report.origins} == sliding
    assert {o.cause for o in report.origins} == {Cause.KV_LENGTH}


@pytest.mark.parametrize(
    ("case", "hit"),
    [
        (r5.CLAMPED, r5.BLOCKS - r5.CLAMPED.config.block),
        (r5.ONE_TOKEN, r5.BLOCKS),
        (r5.UNWRAPPED_RING, None),
        (healthy(r5.WRAPPED_RING), None),
    ],
    ids=["clamped", "one-token", "unwrapped", "healthy-ring"],
)
def test_look_alikes_are_identical(case: SampleCase, hit: int | None, tmp_path: Path) -> None:
    report = compared(case, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert hit in (None, report.coverage.hit_tokens["r1"])
    assert report.coverage.hit_tokens["r1"]
