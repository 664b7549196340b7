"""Two requests on one document: which pairs of lengths mix rows and state, by the scheduler."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from layerdiff.vocabulary import Cause, Confidence, TensorKind, Verdict
from layerdiff_samples.cases import r2
from layerdiff_samples.cases.r2 import BLOCK
from tests.layerdiff_samples.hunting import compared, first, healthy, hunted, ruled_out

PAIRS = (
    *((r2.SHORT, r2.LONG), (r2.SHORT + r2.NINE, r2.LONG), (BLOCK + 1, r2.LONG)),
    *((BLOCK, r2.LONG), (BLOCK - 2, r2.LONG), (BLOCK + 8, 3 * BLOCK + 4)),
    *((2 * BLOCK + 8, 3 * BLOCK + 8), (3 * BLOCK + 4, 3 * BLOCK + 6)),
)
"""Lengths of the first and of the second prompt."""


def chunks_from(start: int, length: int) -> list[tuple[int, int]]:
    """The chunks of a prompt: they end at boundaries up to a block before the last whole one."""
    last = length // BLOCK * BLOCK - BLOCK
    return list(pairwise([start, *range(start + BLOCK, last + 1, BLOCK), length]))


class Schedule:
    """What requests on one document leave for each other, by the scheduler alone."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, int]] = {}
        """Who wrote a block, in a chunk of how many tokens; by the block's first token."""
        self.states: dict[int, str] = {}

    def hit(self, length: int) -> int:
        """Tokens that are served: rows and a state are there, and one token is left."""
        return max((p for p in self.states if p < length), default=0)

    def serve(self, name: str, length: int) -> None:
        for start, stop in chunks_from(self.hit(length), length):
            for block in range(start, stop - BLOCK + 1, BLOCK):
                self.rows.setdefault(block, (name, stop - start))
            if not stop % BLOCK:
                self.states.setdefault(stop, name)


def mixed(first_length: int, length: int) -> bool:
    """Whether the second request's repeat stands on rows of a longer chunk than its state."""
    schedule = Schedule()
    schedule.serve("a", first_length)
    schedule.serve("b", length)
    hit = schedule.hit(length)
    below = [schedule.rows[block] for block in range(0, hit, BLOCK)]
    return any(
        writer != schedule.states[hit] and tokens >= r2.CONFIG.wide_rows
        for writer, tokens in below
    )


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_the_schedule_predicts_which_pairs_mix(one: int, two: int, tmp_path: Path) -> None:
    case = r2.pair(f"pair-{one}-{two}", "", one, two, arms=("cold", "warm"))
    report = hunted(case, tmp_path)
    assert (report.verdict is Verdict.DIVERGED) == mixed(one, two)
    assert report.coverage.hit_tokens["b1"]
    if report.origins:
        assert first(report).cause is Cause.KV_MIXED_ORIGIN


def test_the_number_of_sealed_blocks_does_not_predict_it() -> None:
    sealed = [one // BLOCK != two // BLOCK for one, two in PAIRS]
    outcomes = [mixed(one, two) for one, two in PAIRS]
    assert True in outcomes
    assert False in outcomes
    assert sealed != outcomes


def test_rows_of_one_request_under_the_state_of_another(tmp_path: Path) -> None:
    report = hunted(r2.THRESHOLD, tmp_path)
    assert report.verdict is Verdict.DIVERGED
    origin = first(report)
    attention = r2.CONFIG.layers.index("a")
    assert origin.cause is Cause.KV_MIXED_ORIGIN
    assert (origin.request_id, origin.layer_index, origin.site) == (
        *("b1", attention),
        f"layers.{attention}:key",
    )
    assert (origin.tensor, origin.moment) == (TensorKind.KV_KEY.word, "in")
    assert (origin.position, origin.positions) == (0, BLOCK)
    assert origin.confidence is Confidence.PROVED
    assert origin.proved == ("location", "mechanism")
    assert {o.cause for o in report.origins} == {Cause.KV_MIXED_ORIGIN}


def test_both_writers_are_named_with_their_passes(tmp_path: Path) -> None:
    facts = " ".join(e.fact for e in first(hunted(r2.THRESHOLD, tmp_path)).evidence)
    assert f"request 'a', pass 0, [0, {r2.SHORT})" in facts
    assert re.search(rf"request 'b', pass \d+, \[0, {BLOCK}\)", facts)


def test_what_mixed_rows_are_not(tmp_path: Path) -> None:
    origin = first(hunted(r2.THRESHOLD, tmp_path))
    assert "same prefix" in ruled_out(origin, Cause.STATE_FOREIGN).because
    ruled_out(origin, Cause.KV_OVERWRITTEN)
    ruled_out(origin, Cause.STATE_CORRUPTED)
    ruled_out(origin, Cause.KV_LENGTH)


def test_nine_tokens_more_and_the_first_request_leaves_its_state(tmp_path: Path) -> None:
    report = hunted(r2.NINE_TOKENS, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens["b1"] == BLOCK


def test_where_every_boundary_ends_a_chunk_ten_of_ten_repeats_are_identical(
    tmp_path: Path,
) -> None:
    report = hunted(r2.EVERY_BOUNDARY, tmp_path)
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.hit_tokens == dict.fromkeys(
        (f"b{time}" for time in range(1, r2.TIMES + 1)), 2 * BLOCK
    )


def test_without_the_fault_the_same_prompts_are_identical(tmp_path: Path) -> None:
    assert compared(healthy(r2.THRESHOLD), tmp_path).verdict is Verdict.IDENTICAL
