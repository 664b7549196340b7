"""A told hit against the passes of the same dump: served is where a request's own first begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from layerdiff.comparison import compare_dumps
from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import Cause, Phase, Reach, Role, TensorKind, Verdict

TOKENS = tuple(range(40, 60))
TABLE = np.random.default_rng(3).standard_normal((64, 4)).astype(np.float32)
HIT = 8


@dataclass(frozen=True, slots=True)
class Ran:
    """One pass of a request over [start, stop)."""

    start: int
    stop: int
    phase: Phase = Phase.PREFILL
    site: str = "row"
    flags: int = 0
    wrong: int | None = None
    """A position whose row is not what it should be."""


def dump(path: Path, arm: str, ran: Sequence[Ran], *, told: int | None, fill: bool = True) -> Dump:
    """A fill of HIT tokens, where asked for, and a request."""
    with DumpBuilder(path, arm=arm) as builder:
        builder.site("row", layer_index=0)
        builder.site("head", kind=TensorKind.LOGITS, inputs=("row",), reach=Reach.ROW)
        builder.site("draft", layer_index=0, role=Role.DRAFTER)
        source = None
        if fill:
            source = builder.request("fill", TOKENS[:HIT])
            _run(builder, source, Ran(0, HIT))
        request = builder.request("r1", TOKENS, hit=told, source=source)
        for one in ran:
            _run(builder, request, one)
    return Dump.open(path)


def _run(builder: DumpBuilder, request: int, ran: Ran) -> None:
    rows = TABLE[list(TOKENS[ran.start : ran.stop])].copy()
    if ran.wrong is not None:
        rows[ran.wrong - ran.start] *= 2
    span = [(request, ran.start, ran.stop)]
    builder.observe(ran.site, rows, span)
    if ran.site == "row":
        builder.observe("head", rows + 1, span)
    builder.commit(span, phase=ran.phase, flags=ran.flags)


def warm(path: Path, *ran: Ran, told: int | None = HIT) -> Dump:
    """A request behind a hit."""
    return dump(path / "warm.h5", "warm", ran, told=told)


def report(path: Path, candidate: Dump) -> Report:
    """What a cold run in one pass says of it."""
    cold = dump(path / "cold.h5", "cold", [Ran(0, 20)], told=0, fill=False)
    return compare_dumps(cold, candidate).report


def test_what_was_told_and_is_true_is_served(tmp_path: Path) -> None:
    """The look-alike of all below: passes begin at the hit."""
    found = warm(tmp_path, Ran(8, 14), Ran(14, 20))
    assert [(r.told, r.hit) for r in found.requests] == [(0, 0), (8, 8)]
    said = report(tmp_path, found)
    assert said.verdict is Verdict.IDENTICAL
    assert not said.warnings


def test_a_hit_that_was_declined_after_it_was_told(tmp_path: Path) -> None:
    """All was computed from 0: nothing was reused, and that is said."""
    found = warm(tmp_path, Ran(0, 8), Ran(8, 20))
    assert (found.requests[1].told, found.requests[1].hit) == (8, 0)
    said = report(tmp_path, found)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert [cause.cause for cause in said.arm_causes] == [Cause.NO_REUSE]
    assert said.coverage.hit_tokens["r1"] == 0
    (words,) = said.warnings
    assert "a hit of 8 was told of request 'r1'" in words
    assert "0 were served" in words


def test_a_part_of_a_told_hit_that_was_computed_again(tmp_path: Path) -> None:
    """Own rows below the told hit are compared; what was really taken over is not theirs."""
    said = report(tmp_path, warm(tmp_path, Ran(4, 8, wrong=5), Ran(8, 20)))
    assert (said.origins[0].site, said.origins[0].position) == ("row", 5)
    assert said.coverage.hit_tokens["r1"] == 4
    (tmp_path / "good").mkdir()
    said = report(tmp_path / "good", warm(tmp_path / "good", Ran(4, 8), Ran(8, 20)))
    assert said.verdict is Verdict.IDENTICAL


def test_rows_below_the_hit_that_a_later_pass_computed_again(tmp_path: Path) -> None:
    """The hit was served; a request that was preempted then runs all of its tokens again."""
    found = warm(tmp_path, Ran(8, 14), Ran(0, 20, wrong=3))
    assert found.requests[1].hit == HIT
    said = report(tmp_path, found)
    assert (said.origins[0].site, said.origins[0].position) == ("row", 3)
    (tmp_path / "good").mkdir()
    said = report(tmp_path / "good", warm(tmp_path / "good", Ran(8, 14), Ran(0, 20)))
    assert said.verdict is Verdict.IDENTICAL


def test_rows_behind_a_hit_that_no_pass_computed(tmp_path: Path) -> None:
    """A gap, even where the baseline lacks them too."""
    said = report(tmp_path, warm(tmp_path, Ran(11, 20)))
    assert said.verdict is Verdict.INCONCLUSIVE
    (gap,) = [gap for gap in said.coverage.gaps if "behind its hit" in gap]
    assert "positions [8, 11) of request 'r1'" in gap
    both = [dump(tmp_path / f"{arm}.h5", arm, [Ran(11, 20)], told=8) for arm in ("one", "other")]
    assert compare_dumps(*both).report.verdict is Verdict.INCONCLUSIVE


def test_chunks_out_of_order_leave_no_gap(tmp_path: Path) -> None:
    """The look-alike: a later pass computed them."""
    said = report(tmp_path, warm(tmp_path, Ran(11, 20), Ran(8, 11)))
    assert said.verdict is Verdict.IDENTICAL


def test_a_whole_prompt_hit_runs_its_last_token_again(tmp_path: Path) -> None:
    """Its own row is compared, and it is no other length."""
    found = dump(tmp_path / "w.h5", "warm", [Ran(7, 8)], told=8)
    assert found.requests[1].hit == 7
    cold = dump(tmp_path / "c.h5", "cold", [Ran(0, 8)], told=0, fill=False)
    said = compare_dumps(cold, found, forced=[("r1", "r1")]).report
    assert said.coverage.hit_tokens == {"r1": 7}
    assert not said.origins
    bad = dump(tmp_path / "b.h5", "warm", [Ran(7, 8, wrong=7)], told=8)
    said = compare_dumps(cold, bad, forced=[("r1", "r1")]).report
    assert (said.origins[0].site, said.origins[0].position) == ("row", 7)


def test_passes_that_do_not_count(tmp_path: Path) -> None:
    """Those of the drafter, by phase or by what they observed, and those that raised."""
    odd = (
        Ran(0, 8, phase=Phase.DRAFT, site="draft"),
        Ran(0, 8, site="draft"),
        Ran(0, 8, flags=schema.PASS_FAILED),
    )
    for number, one in enumerate(odd):
        found = dump(tmp_path / f"{number}.h5", "warm", [one, Ran(8, 20)], told=8)
        assert found.requests[1].hit == HIT


def test_without_passes_or_without_a_word(tmp_path: Path) -> None:
    """A request of no pass was served what was told; what was not told stays unknown."""
    assert warm(tmp_path).requests[1].hit == HIT
    assert warm(tmp_path, Ran(8, 20), told=None).requests[1].hit is None


def test_rows_of_one_pass_in_any_order(tmp_path: Path) -> None:
    """A pass may list its spans as it likes: the lowest begins it."""
    path = tmp_path / "spans.h5"
    with DumpBuilder(path, arm="warm") as builder:
        builder.site("row", layer_index=0)
        request = builder.request("r1", TOKENS, hit=8)
        builder.commit([(request, 12, 20), (request, 6, 12)])
    with Dump.open(path) as found:
        assert found.requests[0].hit == 6
