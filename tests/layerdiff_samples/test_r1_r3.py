"""One-token suffixes, restored states of nobody and of somebody else, and races."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from layerdiff.model import Report
from layerdiff.vocabulary import Cause, Confidence, TensorKind, Verdict
from layerdiff_hooks.hunt import Arm
from layerdiff_hooks.hunt.arm import find_arm
from layerdiff_hooks.recorder import Recorder
from layerdiff_samples.cases import r1, r3
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.engine.attention import one_query, several
from layerdiff_samples.faults.races import histogram_select
from tests.layerdiff_samples.hunting import (
    compared,
    first,
    healthy,
    hunted,
    hunted_anew,
    ruled_out,
)
from tests.layerdiff_samples.spying import Spy, differing

STATES = (
    "ngram:conv",
    *(f"layers.{i}:{port}" for i in (0, 1, 3) for port in ("conv_state", "recurrent")),
)
"""Every state of the default model."""
Choices = dict[str, dict[tuple[str, int], torch.Tensor]]
"""Top-k rows by arm, then by request and position."""


# R1


def test_one_token_of_a_prompt_takes_the_kernel_for_one_query(tmp_path: Path) -> None:
    report = hunted(r1.TWO_TOKEN_KERNEL, tmp_path)
    assert report.verdict is Verdict.DIVERGED
    assert len(report.origins) == 1
    origin, attention = first(report), r1.TWO_TOKEN_KERNEL.config.layers.index("a")
    assert (origin.cause, origin.confidence) == (Cause.SHAPE_DISPATCH, Confidence.PROVED)
    assert origin.proved == ("location", "mechanism")
    assert (origin.request_id, origin.layer_index, origin.position) == ("r1", attention, r1.PREFIX)
    baseline, candidate = origin.kernel.baseline, origin.kernel.candidate
    assert baseline is not None
    assert candidate is not None
    assert (baseline.name, candidate.name) == (several.__name__, one_query.__name__)
    assert (baseline.facts["T_q"], candidate.facts["T_q"]) == (r1.PREFIX + 1, 1)
    assert candidate.facts["kv_len"] == baseline.facts["kv_len"] == r1.PREFIX + 1


def test_raw_tensors_part_at_the_same_place(tmp_path: Path) -> None:
    origin = first(hunted(r1.TWO_TOKEN_KERNEL, tmp_path))
    cold, warm = Spy(), Spy()
    r1.TWO_TOKEN_KERNEL.run(find_arm("cold"), cold)
    r1.TWO_TOKEN_KERNEL.run(find_arm("warm"), warm)
    found = differing(warm.cells, cold.cells)
    assert min(position for _, _, position in found) == origin.position
    sites = {site for site, _, position in found if position == origin.position}
    layer = f"layers.{origin.layer_index}"
    assert origin.site in sites
    assert not sites & {f"{layer}:{port}" for port in ("query", "key", "value", "topk")}


def test_what_the_two_token_kernel_is_not(tmp_path: Path) -> None:
    report = hunted(r1.TWO_TOKEN_KERNEL, tmp_path)
    origin = first(report)
    for cause in (Cause.STATE_IGNORED, Cause.KERNEL_MISMATCH, Cause.MASK_SEAM, Cause.STALE_READ):
        ruled_out(origin, cause)
    assert f"holds {r1.PREFIX} rows" in ruled_out(origin, Cause.KV_LENGTH).because
    assert controls(report)["cold-split"] is Verdict.IDENTICAL


@pytest.mark.parametrize("case", [r1.TWO_TOKENS, healthy(r1.TWO_TOKEN_KERNEL)])
def test_a_suffix_of_two_tokens_or_a_healthy_engine_is_identical(
    case: SampleCase, tmp_path: Path
) -> None:
    report = compared(case, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens["r1"] == r1.PREFIX


def test_a_cache_that_went_through_a_file_is_read_and_changes_nothing(tmp_path: Path) -> None:
    report = hunted(r1.ROUNDTRIP, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens["r1"] == r1.PREFIX
    assert_planted(report)


# R3: states


def test_a_slot_that_nothing_has_written_is_all_zero(tmp_path: Path) -> None:
    report = hunted(r3.ZERO, tmp_path)
    assert report.verdict is Verdict.DIVERGED
    assert [o.site for o in report.origins] == list(STATES)
    assert_states(report, Cause.STATE_ZERO)
    assert "zero" in ruled_out(first(report), Cause.STATE_CORRUPTED).because
    assert Cause.STATE_FOREIGN not in first(report).also


def test_the_state_of_another_request_is_named_as_its(tmp_path: Path) -> None:
    report = hunted(r3.FOREIGN, tmp_path)
    assert [o.site for o in report.origins] == list(STATES)
    assert_states(report, Cause.STATE_FOREIGN)
    for origin in report.origins:
        assert "'theirs'" in " ".join(e.fact for e in origin.evidence)
        for cause in (Cause.STATE_ZERO, Cause.STATE_WRONG_POSITION, Cause.STATE_CORRUPTED):
            ruled_out(origin, cause)


@pytest.mark.parametrize("case", [r3.SHARED_DOCUMENT, r3.GHOST, healthy(r3.FOREIGN)])
def test_streams_that_share_a_document_are_no_leak(case: SampleCase, tmp_path: Path) -> None:
    report = hunted(case, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert set(report.coverage.hit_tokens.values()) == {r3.HIT}
    assert_planted(report)


def test_the_streams_restore_equal_states() -> None:
    """Each stream's state equals every other's: their bits alone cannot tell a leak."""
    spy = Spy()
    r3.GHOST.run(find_arm("warm"), spy)
    streams = [name for name, hit in spy.hits.items() if hit]
    assert len(streams) > 1
    for site in STATES:
        assert len({content for s in streams for content in spy.cells[site, s, r3.HIT]}) == 1


# R3: a race


@pytest.fixture(scope="module")
def race(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Report, Choices]]:
    """The report, and the raw top-k rows that went into it."""
    raw: Choices = defaultdict(dict)
    observe, run, names = Recorder.observe, SampleCase.run, [""]

    def running(self: SampleCase, arm: Arm, recorder: Recorder) -> None:
        names.append(arm.name)
        run(self, arm, recorder)

    def watching(self: Recorder, site: str, tensor: Any, **told: Any) -> None:
        observe(self, site, tensor, **told)
        if told["kind"] is TensorKind.TOPK:
            places = [(r.name, p) for r, start, stop in told["rows"] for p in range(start, stop)]
            chosen = {place: row.clone() for place, row in zip(places, tensor, strict=True)}
            raw[names[-1]] |= chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "observe", watching)
        patch.setattr(SampleCase, "run", running)
        yield hunted_anew(r3.RACY, tmp_path_factory.mktemp("race")), raw


def test_a_selection_that_races_does_not_repeat(race: tuple[Report, Choices]) -> None:
    report, raw = race
    assert report.verdict is Verdict.DIVERGED
    origin = first(report)
    attention = r3.RACY.config.layers.index("a")
    assert origin.cause is Cause.NONDETERMINISM
    assert origin.confidence is Confidence.PROVED
    assert (origin.layer_index, origin.tensor) == (attention, TensorKind.TOPK.word)
    assert origin.kernel.candidate is not None
    assert origin.kernel.candidate.name == histogram_select.__name__
    assert origin.position == first_difference(raw["cold"], raw["warm"])
    ruled_out(origin, Cause.DISCRETE_TIE)


def test_repeats_of_either_side_show_the_race(race: tuple[Report, Choices]) -> None:
    report, raw = race
    for arm in ("cold", "warm"):
        repeats = [c.verdict for c in report.controls if c.name.startswith(f"{arm}-repeat")]
        assert len(repeats) > 1
        assert Verdict.DIVERGED in repeats
        # The last repeat's rows are those that are left.
        assert first_difference(raw[arm], raw[f"{arm}-repeat"]) is not None


def test_a_prompt_too_short_for_a_choice_is_identical(tmp_path: Path) -> None:
    report = hunted(r3.SHORT_PROMPT, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert not report.warnings


def test_the_selection_without_a_race_repeats(tmp_path: Path) -> None:
    assert compared(healthy(r3.RACY), tmp_path).verdict is Verdict.IDENTICAL


# What the tests share


def assert_states(report: Report, cause: Cause) -> None:
    """Every origin is a state at the hit, read so, and proved to come with the hit."""
    for origin in report.origins:
        assert origin.cause is cause
        assert origin.confidence is Confidence.PROVED
        assert origin.moment == "in"
        assert (origin.request_id, origin.position) == ("r1", r3.HIT)


def assert_planted(report: Report) -> None:
    """A change planted in what was restored was found, and reached the logits."""
    planted = [c for c in report.controls if c.name.startswith("poison-layer-")]
    assert planted
    assert all(c.verdict is Verdict.DIVERGED for c in planted)


def controls(report: Report) -> dict[str, Verdict]:
    """The verdict of every control by name."""
    return {control.name: control.verdict for control in report.controls}


def first_difference(
    ours: dict[tuple[str, int], torch.Tensor], theirs: dict[tuple[str, int], torch.Tensor]
) -> int | None:
    """The first position of the compared line that two arms chose otherwise at.

    Below the hit it is the request that filled the cache whose rows count.
    """
    sides = [_line(side) for side in (ours, theirs)]
    for position in sorted(sides[0]):
        if position in sides[1] and not torch.equal(sides[0][position], sides[1][position]):
            return position
    return None


def _line(rows: dict[tuple[str, int], torch.Tensor]) -> dict[int, torch.Tensor]:
    own = {position: row for (name, position), row in rows.items() if name == "r1"}
    below = {p: row for (name, p), row in rows.items() if name == "fill" and p < r3.HIT}
    return below | own
