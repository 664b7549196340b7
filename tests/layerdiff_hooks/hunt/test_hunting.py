"""Whole hunts of the toy engine: what runs, what is left out, and what the report says of it."""

from pathlib import Path

import pytest

from layerdiff.format.reader import Dump
from layerdiff.model import Control
from layerdiff.vocabulary import Cause, Verdict
from layerdiff_hooks.hunt import hunting
from layerdiff_hooks.hunt.errors import ArmFailed
from layerdiff_hooks.hunt.noise import rate_words
from tests.layerdiff_hooks.hunt.hunts import Hunted, hunt
from tests.layerdiff_hooks.hunt.toy_engine import case_with

CORE = ["cold", "cold-repeat", "warm", "warm-repeat", "cold-split", "off"]


def control(hunted: Hunted, name: str) -> Control:
    """The control of that name."""
    return next(found for found in hunted.report.controls if found.name == name)


def test_a_healthy_engine_is_identical(tmp_path: Path) -> None:
    """All arms run in order, every control agrees but the planted poison, which is found."""
    hunted = hunt(case_with(""), tmp_path)
    assert hunted.report.verdict is Verdict.IDENTICAL
    assert list(hunted.hunt.runs) == [*CORE, "poison-layer-0"]
    verdicts = {found.name: found.verdict for found in hunted.report.controls}
    assert verdicts.pop("poison-layer-0") is Verdict.DIVERGED
    assert set(verdicts) == {"cold-repeat", "warm-repeat", "cold-split", "off"}
    assert Verdict.DIVERGED not in verdicts.values()
    assert not [words for words in hunted.report.warnings if "control" in words]


def test_a_zero_state_is_named(tmp_path: Path) -> None:
    """Recorded facts name it; the declined hit takes it away."""
    hunted = hunt(case_with("zero"), tmp_path)
    assert hunted.report.verdict is Verdict.DIVERGED
    assert hunted.report.origins[0].cause is Cause.STATE_ZERO
    assert "no-state" in hunted.hunt.runs
    assert hunted.report.origins[0].proved


def test_another_shape_is_no_fault_of_reuse(tmp_path: Path) -> None:
    """The split run follows the chunks of warm, and has its bits."""
    hunted = hunt(case_with("shape"), tmp_path)
    assert hunted.report.verdict is Verdict.DIVERGED
    assert control(hunted, "cold-split").verdict is Verdict.IDENTICAL
    assert hunted.report.origins[0].cause is Cause.SHAPE_DISPATCH


def test_noise_comes_first(tmp_path: Path) -> None:
    """Repeats that differ are repeated once more."""
    hunted = hunt(case_with("noise"), tmp_path)
    assert {"cold-repeat-2", "warm-repeat-2"} <= hunted.hunt.runs.keys()
    assert hunted.report.origins[0].cause is Cause.NONDETERMINISM
    assert "leave room" not in " ".join(found.says for found in hunted.report.controls)


def test_noise_of_one_side_bounds_the_other(tmp_path: Path) -> None:
    """Three equal cold runs are no proof; the report says what they are."""
    hunted = hunt(case_with("warm-noise"), tmp_path)
    assert control(hunted, "warm-repeat").verdict is Verdict.DIVERGED
    assert rate_words(3) in control(hunted, "cold-repeat-2").says
    assert "leave room" not in control(hunted, "warm-repeat-2").says


def test_three_equal_runs_leave_much_room() -> None:
    """1 - 0.05^(1/3)."""
    assert "up to 63%" in rate_words(3)
    assert "up to 26%" in rate_words(10)


def test_the_order_of_measuring_may_warm_the_cache(tmp_path: Path) -> None:
    """What an earlier arm left behind serves the repeat: then it does not count."""
    hunted = hunt(case_with("leak"), tmp_path)
    (words,) = [words for words in hunted.report.warnings if "cold-repeat" in words]
    assert "does not count: request 'r1' was served a hit of 16 tokens by something" in words
    assert "the order of measuring itself warmed the cache" in words
    assert "cold-repeat" not in {found.name for found in hunted.report.controls}


def test_within_a_run_the_giver_is_named(tmp_path: Path) -> None:
    """The first request of the cold arm served the second."""
    hunted = hunt(case_with("always-fills"), tmp_path)
    (words,) = [words for words in hunted.report.warnings if words.startswith("cold:")]
    assert "by request 'fill' of the same run" in words
    assert hunted.report.verdict is not Verdict.IDENTICAL


def test_a_split_run_that_ignores_the_layout_does_not_count(tmp_path: Path) -> None:
    """It would accuse the cache of what the shape did."""
    hunted = hunt(case_with("no-layout"), tmp_path)
    assert "cold-split" not in {found.name for found in hunted.report.controls}
    (words,) = [words for words in hunted.report.warnings if "cold-split" in words]
    assert "does not count" in words
    assert "follow arm.layout" in words


def test_the_split_run_has_the_chunks_of_warm(tmp_path: Path) -> None:
    """Those of the filling request below the hit, then its own."""
    hunted = hunt(case_with("shape"), tmp_path)
    assert hunted.hunt.runs["cold-split"].arm.layout == {
        "fill": ((0, 16), (16, 20)),
        "r1": ((0, 16), (16, 19), (19, 22)),
    }
    with Dump.open(tmp_path / "cold-split.h5") as dump:
        assert [request.hit for request in dump.requests] == [0]


def test_an_arm_that_is_unsupported_is_left_out(tmp_path: Path) -> None:
    """With its reason, and without a dump."""
    hunted = hunt(case_with("off"), tmp_path)
    assert hunted.report.verdict is Verdict.IDENTICAL
    assert "the control off is missing: this toy always caches" in hunted.report.warnings
    assert not (tmp_path / "off.h5").exists()
    assert "running off (6 of 6) ... skipped: this toy always caches" in hunted.said


def test_a_control_that_the_case_does_not_offer_is_named(tmp_path: Path) -> None:
    """The outcome asks for it; the report says that it is missing."""
    case = case_with("zero")
    case.can = frozenset()
    hunted = hunt(case, tmp_path)
    assert "the control no-state is missing: the case does not offer no-state" in (
        hunted.report.warnings
    )


def test_a_control_that_fails_does_not_end_the_hunt(tmp_path: Path) -> None:
    """Its dump is kept and named, with the line of the case that raised."""
    hunted = hunt(case_with("raise-off"), tmp_path)
    assert hunted.report.verdict is Verdict.IDENTICAL
    (words,) = [words for words in hunted.report.warnings if "off" in words]
    assert "ValueError: the pool is empty (toy_engine.py:" in words
    assert " in run)" in words
    assert str(tmp_path / "off.h5") in words
    with Dump.open(tmp_path / "off.h5") as dump:
        dump.require_passes()


@pytest.mark.parametrize("arm", ["cold", "warm"])
def test_nothing_can_be_said_without_both_arms(tmp_path: Path, arm: str) -> None:
    """Exit status 2, and the dump up to there."""
    with pytest.raises(ArmFailed, match="ValueError: the pool is empty") as caught:
        hunt(case_with(f"raise-{arm}"), tmp_path)
    assert caught.value.exit_status == 2
    assert caught.value.dump == tmp_path / f"{arm}.h5"


def test_progress_is_one_line_an_arm(tmp_path: Path) -> None:
    """With its number; a reused dump says so."""
    first = hunt(case_with(""), tmp_path).said
    assert len(first) == 7
    assert first[2].startswith("running warm (3 of 6) ... ")
    assert first[6].startswith("running poison-layer-0 (7 of 7) ... ")
    second = hunt(case_with(""), tmp_path).said
    assert all(line.endswith("... reused") for line in second)


def test_a_control_that_is_no_arm_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state outside any layer has no number to poison."""
    monkeypatch.setattr(hunting, "wanted", lambda main, ran: ("poison-layer-None", "no-state"))
    hunted = hunt(case_with("zero"), tmp_path)
    assert list(hunted.hunt.runs) == [*CORE, "no-state"]
