"""Positions that held other tokens before, unknown writers, and unknown sizes."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.comparison import compare_dumps
from layerdiff.digest import CHAIN_START, chain_tokens
from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import Moment, Phase, Reach, Role, SizeClass, TensorKind, Verdict

SITE = "model.layers.0:in"


def report(baseline: Path, candidate: Path) -> Report:
    """Compares two dumps."""
    return compare_dumps(Dump.open(baseline), Dump.open(candidate)).report


def decoded(path: Path, final: float, *, rejected: bool, draft: int = 9) -> Path:
    """Three given tokens and one generated, which a draft had guessed wrongly before."""
    with DumpBuilder(path, arm="run") as builder:
        guess = draft if rejected else 4
        request = builder.request("r1", [1, 2, 3, guess], given=3)
        builder.site(SITE, layer_index=0)
        builder.observe(SITE, np.ones((3, 4), np.float32), [(request, 0, 3)])
        builder.commit([(request, 0, 3)])
        last = [(request, 3, 4)]
        if rejected:
            builder.observe(SITE, np.full((1, 4), draft, np.float32), last)
            builder.commit(last, phase=Phase.VERIFY)
            token = np.zeros(1, schema.TOKEN)
            token["request"], token["position"], token["token"] = request, 3, -1
            token["chain"] = chain_tokens(CHAIN_START, [1, 2, 3, 4])[3:]
            builder.writer.append("tokens", token)
        builder.observe(SITE, np.full((1, 4), final, np.float32), last)
        builder.commit(last, phase=Phase.DECODE)
    return path


def test_a_rejected_draft_is_a_cell_of_another_prefix(tmp_path: Path) -> None:
    """Only the version under the final token is compared, and it still is."""
    plain = decoded(tmp_path / "a.h5", 4.0, rejected=False)
    drafted = decoded(tmp_path / "b.h5", 4.0, rejected=True)
    assert report(plain, drafted).verdict is Verdict.IDENTICAL
    assert report(drafted, plain).verdict is Verdict.IDENTICAL
    assert report(drafted, drafted).verdict is Verdict.IDENTICAL
    wrong = decoded(tmp_path / "c.h5", 5.0, rejected=True)
    assert report(plain, wrong).origins[0].position == 3


def test_drafts_that_differ_are_not_compared_once_both_were_rejected(tmp_path: Path) -> None:
    """Both arms ran the same passes, and only what was rejected differs."""
    one = decoded(tmp_path / "a.h5", 4.0, rejected=True)
    other = decoded(tmp_path / "b.h5", 4.0, rejected=True, draft=7)
    assert report(one, other).verdict is Verdict.IDENTICAL
    wrong = decoded(tmp_path / "c.h5", 5.0, rejected=True, draft=7)
    assert report(one, wrong).origins[0].position == 3


@pytest.mark.parametrize("unrecorded", [0, 1])
def test_a_writer_that_neither_arm_recorded_is_a_gap(tmp_path: Path, unrecorded: int) -> None:
    """Whichever arm began with a cache that nobody saw being filled."""
    values = np.random.default_rng(1).standard_normal((12, 2, 4)).astype(np.float32)
    paths = []
    for arm in (0, 1):
        paths.append(tmp_path / f"{arm}.h5")
        hit = 6 if arm == unrecorded else 0
        with DumpBuilder(paths[-1], arm="run") as builder:
            builder.site("attn:key", kind=TensorKind.KV_KEY, layer_index=0)
            request = builder.request("r1", range(12), hit=hit)
            if hit:
                span = [(request, 0, hit)]
                builder.observe("attn:key", values[:hit], span, moment=Moment.IN)
            builder.observe("attn:key", values[hit:], [(request, hit, 12)])
            builder.commit([(request, hit, 12)])
    found = report(*paths)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any("unobserved" in gap for gap in found.coverage.gaps)


def test_a_writer_of_other_tokens_is_named(tmp_path: Path) -> None:
    """It was recorded, so nobody is asked to record it: its tokens are not the prefix's."""
    values = np.random.default_rng(1).standard_normal((12, 2, 4)).astype(np.float32)
    paths = []
    for hit in (0, 6):
        paths.append(tmp_path / f"{hit}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            builder.site("attn:key", kind=TensorKind.KV_KEY, layer_index=0)
            source = builder.request("fill", range(50, 56)) if hit else None
            if source is not None:
                builder.observe("attn:key", values[:hit] + 1, [(source, 0, hit)])
                builder.commit([(source, 0, hit)])
            request = builder.request("r1", range(12), hit=hit, source=source)
            if hit:
                span = [(request, 0, hit)]
                builder.observe("attn:key", values[:hit] + 1, span, moment=Moment.IN)
            builder.observe("attn:key", values[hit:], [(request, hit, 12)])
            builder.commit([(request, hit, 12)])
    found = report(*paths)
    assert any("filled by request 'fill', with other tokens" in g for g in found.coverage.gaps)
    assert not any("unobserved" in gap for gap in found.coverage.gaps)


def test_a_difference_of_unknown_size_does_not_make_the_next_one_a_jump(tmp_path: Path) -> None:
    """int8 keys without sketches differ first; the attention output behind them follows."""
    paths = []
    for change in (0, 1):
        paths.append(tmp_path / f"{change}.h5")
        with DumpBuilder(paths[-1], arm="run", sketches=False) as builder:
            request = builder.request("r1", [1, 2, 3, 4])
            span = [(request, 0, 4)]
            builder.site(SITE, layer_index=0)
            builder.site("attn:key", kind=TensorKind.KV_KEY, layer_index=0, inputs=[SITE])
            inputs = [SITE, "attn:key"]
            builder.site("attn:out", reach=Reach.PREFIX, layer_index=0, inputs=inputs)
            builder.observe(SITE, np.ones((4, 8), np.float32), span)
            keys = np.ones((4, 8), np.int8)
            keys[1, 0] += change
            builder.observe("attn:key", keys, span)
            out = np.ones((4, 8), np.float32)
            out[1:] += change
            builder.observe("attn:out", out, span)
            builder.commit(span)
    first = report(*paths).origins[0]
    assert (first.site, first.position) == ("attn:key", 1)
    assert first.severity.size is SizeClass.UNKNOWN


def test_a_drafter_s_pass_over_the_same_rows_hides_nothing(tmp_path: Path) -> None:
    """The state that a pass reads is what was left there, not what was left last."""
    paths = []
    for change in (0, 1):
        paths.append(tmp_path / f"{change}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", range(8))
            builder.site(SITE, layer_index=0)
            kind = TensorKind.RECURRENT_STATE
            builder.site("s", kind=kind, reach=Reach.STATE, layer_index=0, inputs=[SITE])
            builder.site("mixed", reach=Reach.STATE, layer_index=0, inputs=[SITE, "s"])
            builder.site("guess", role=Role.DRAFTER, inputs=["mixed"])
            for start, stop in ((0, 4), (4, 8)):
                span = [(request, start, stop)]
                bent = np.full((4, 8), 1 + change * (start == 4), np.float32)
                builder.observe(SITE, np.ones((4, 8), np.float32), span)
                builder.observe("mixed", bent, span)
                state = [(request, stop, stop + 1)]
                builder.observe("s", bent[:1, None], state, moment=Moment.OUT, parts=True)
                builder.commit(span)
                builder.observe("guess", bent, span)
                builder.commit(span, phase=Phase.DRAFT)
    first = report(*paths).origins[0]
    assert (first.site, first.position) == ("mixed", 4)


def test_a_row_of_zeros_differs_by_the_whole_baseline(tmp_path: Path) -> None:
    """Also where the baseline made the row twice, so that one version has no partner."""
    paths = []
    for times, value in ((2, 1), (1, 0)):
        paths.append(tmp_path / f"{value}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", [1, 2])
            builder.site(SITE, layer_index=0)
            for _ in range(times):
                builder.observe(SITE, np.full((2, 8), value, np.float32), [(request, 0, 2)])
                builder.commit([(request, 0, 2)])
    assert report(*paths).origins[0].severity.relative == pytest.approx(1, abs=1e-3)


def guessed(path: Path, draft: int) -> Path:
    """A verify pass that leaves a state behind every token, and the same position once more."""
    with DumpBuilder(path, arm="run") as builder:
        request = builder.request("r1", [1, 2, 3, draft], given=3)
        builder.site("embed")
        builder.site("state", kind=TensorKind.RECURRENT_STATE, layer_index=0, inputs=["embed"])
        passes: list[tuple[tuple[int, ...], bool]] = [((1, 2, 3, draft), False), ((4,), True)]
        for tokens, accepted in passes:
            start = 3 if accepted else 0
            rows = np.array([[token] * 4 for token in tokens], np.float32)
            builder.observe("embed", rows, [(request, start, 4)])
            for position, token in enumerate(tokens, start + 1):
                left = np.full((1, 1, 4), token, np.float32)
                at = [(request, position, position + 1)]
                builder.observe("state", left, at, moment=Moment.OUT, parts=True)
            builder.commit([(request, start, 4)], phase=Phase.VERIFY)
            if not accepted:
                known = np.zeros(1, schema.TOKEN)
                known["request"], known["position"], known["token"] = request, 3, -1
                known["chain"] = chain_tokens(CHAIN_START, [1, 2, 3, 4])[3:]
                builder.writer.append("tokens", known)
    return path


def test_a_state_behind_a_rejected_draft_is_one_of_another_prefix(tmp_path: Path) -> None:
    """Its position counts the draft, so it is one further than the draft's own."""
    found = report(guessed(tmp_path / "a.h5", 9), guessed(tmp_path / "b.h5", 7))
    assert not found.origins
    assert found.coverage.differing == 0
