"""Cached rows and states that are read otherwise than they were written."""

from pathlib import Path

import pytest

from layerdiff.model import Origin
from layerdiff.vocabulary import Cause, Confidence, Verdict
from layerdiff_hooks.hunt.arm import find_arm
from layerdiff_samples.cases import CASES
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reading import ATTENTION, HIT, PLAIN
from tests.layerdiff_samples.hunting import compared, first, hunted, ruled_out
from tests.layerdiff_samples.spying import Spy, differing

RECURRENT = [index for index, kind in enumerate(PLAIN.layers) if kind == "g"]


def test_a_stale_block_table_is_named(tmp_path: Path) -> None:
    """The rows are right in the pool, and foreign as the kernel reads them."""
    report = hunted(CASES["kv-read-path"], tmp_path)
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.KV_READ_PATH, Confidence.PROVED)
    assert (origin.layer_index, origin.tensor, origin.moment) == (ATTENTION, "kv_key", "in")
    assert (origin.position, origin.positions) == (0, PLAIN.block)
    assert {o.cause for o in report.origins} == {Cause.KV_READ_PATH}
    assert sorted(o.position for o in report.origins if o.tensor == "kv_key") == list(
        range(0, HIT, PLAIN.block)
    )
    for cause in (Cause.STATE_FOREIGN, Cause.KV_ORDER, Cause.KV_LENGTH, Cause.KV_OVERWRITTEN):
        assert ruled_out(origin, cause)


def test_the_blocks_are_those_of_whoever_ran_before(tmp_path: Path) -> None:
    """The fill takes blocks 0 and on, the request after it the next ones: the mirror has those."""
    report = hunted(CASES["kv-read-path"], tmp_path)
    taken = -(-(HIT + 2) // PLAIN.block)
    for origin in report.origins:
        right = origin.position // PLAIN.block
        assert f"given block {taken + right}" in origin.evidence[0].fact
        assert f"written to block {right}" in origin.evidence[0].fact


def test_a_raw_copy_of_a_checkpoint_is_a_layout(tmp_path: Path) -> None:
    """The elements are all there; every recurrent layer shows it, and no convolution."""
    report = hunted(CASES["layout"], tmp_path)
    assert [(o.layer_index, o.tensor, o.moment, o.position) for o in report.origins] == [
        (layer, "recurrent_state", "in", HIT) for layer in RECURRENT
    ]
    for origin in report.origins:
        assert (origin.cause, origin.confidence) == (Cause.LAYOUT, Confidence.PROVED)
        for cause in (Cause.STATE_ZERO, Cause.STATE_FOREIGN, Cause.STATE_CORRUPTED):
            assert ruled_out(origin, cause)


def test_rows_that_went_through_another_dtype(tmp_path: Path) -> None:
    """Every block that was kept, keys and values, and nothing else."""
    report = hunted(CASES["dtype-requant"], tmp_path)
    origin = first(report)
    assert (origin.cause, origin.confidence) == (Cause.DTYPE_REQUANT, Confidence.PROVED)
    assert (origin.layer_index, origin.tensor, origin.moment) == (ATTENTION, "kv_key", "in")
    assert (origin.position, origin.positions) == (0, PLAIN.block)
    assert len(report.origins) == 2 * HIT // PLAIN.block
    assert ruled_out(origin, Cause.STATE_CORRUPTED)


@pytest.mark.parametrize(
    "name", ["kv-read-path-lucky", "layout-turned-back", "dtype-requant-exact"]
)
def test_look_alikes_are_identical(name: str, tmp_path: Path) -> None:
    """The same way through the engine, and no bit is another one."""
    report = compared(CASES[name], tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens["r1"] == HIT
    assert not report.warnings


def test_a_choice_that_flips_on_less_than_rounding(tmp_path: Path) -> None:
    """The jump is named for what it is, behind the rounding that it amplifies."""
    case = CASES["discrete-tie"]
    report = hunted(case, tmp_path)
    assert first(report).cause is Cause.DTYPE_REQUANT
    flips = [origin for origin in report.origins if origin.tensor == "topk"]
    assert flips
    assert {origin.cause for origin in flips} == {Cause.DISCRETE_TIE}
    assert flips[0].layer_index == ATTENTION
    assert flips[0].position == _first_flip(case)
    assert _names_a_margin(flips[0])


def test_without_a_flip_no_tie_is_named(tmp_path: Path) -> None:
    """The same rounding where no choice hangs on it."""
    report = hunted(CASES["dtype-requant"], tmp_path)
    assert Cause.DISCRETE_TIE not in {origin.cause for origin in report.origins}
    assert _first_flip(CASES["dtype-requant"]) is None


def _first_flip(case: object) -> int | None:
    """The first position whose raw choice is another one in the warm arm."""
    assert isinstance(case, SampleCase)
    spies = {}
    for name in ("cold", "warm"):
        spies[name] = Spy()
        case.run(find_arm(name), spies[name])
    changed = differing(spies["warm"].cells, spies["cold"].cells)
    site = f"layers.{ATTENTION}:topk"
    return min(
        (at for where, request, at in changed if (where, request) == (site, "r1")), default=None
    )


def _names_a_margin(origin: Origin) -> bool:
    return any("margin" in evidence.fact for evidence in origin.evidence)
