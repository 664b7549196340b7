"""Nothing is called identical that was not compared, and nothing is blamed that is innocent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layerdiff.comparison import compare_dumps
from layerdiff.errors import PairingError
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.testing import DumpBuilder, Plant, ToyRequest, toy_dump
from layerdiff.vocabulary import (
    Cause,
    Moment,
    OriginKind,
    Reach,
    Role,
    SizeClass,
    TensorKind,
    Verdict,
)

TOKENS = tuple(np.random.default_rng(0).integers(0, 32, 24).tolist())
LAYERS = ("full attention", "linear attention")
FILL = ToyRequest("fill", TOKENS[:10])
REUSE = ToyRequest("r1", TOKENS, takes="fill")
COLD = ToyRequest("r1", TOKENS)
KEY, STATE = "model.layers.0.self_attn:key", "model.layers.1.linear_attn:recurrent"


def toy(
    path: Path,
    requests: list[ToyRequest],
    *plants: Plant,
    arm: str = "run",
    sketches: bool = True,
) -> Path:
    """A toy run of two layers."""
    return toy_dump(path, requests, arm=arm, layers=LAYERS, plants=plants, sketches=sketches)


def report(baseline: Path, candidate: Path) -> Report:
    """Compares two dumps."""
    return compare_dumps(Dump.open(baseline), Dump.open(candidate)).report


def test_a_filling_request_in_both_arms_hides_nothing(tmp_path: Path) -> None:
    """The baseline serves fill and r1 cold; the candidate's r1 stands on fill's broken rows."""
    a = toy(tmp_path / "a.h5", [FILL, COLD], arm="cold")
    plant = Plant("lm_head:out", 4, request="fill")
    found = report(a, toy(tmp_path / "b.h5", [FILL, REUSE], plant, arm="warm"))
    assert found.verdict is Verdict.DIVERGED
    assert (found.origins[0].site, found.origins[0].position) == ("lm_head:out", 4)


def test_a_baseline_that_filled_its_cache_is_no_gap(tmp_path: Path) -> None:
    """Roles exchanged, the same pair is identical as well."""
    cold = toy(tmp_path / "a.h5", [COLD], arm="cold")
    warm = toy(tmp_path / "b.h5", [FILL, REUSE], arm="warm")
    assert report(cold, warm).verdict is Verdict.IDENTICAL
    assert report(warm, cold).verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(
    ("site", "position"), [(KEY, 5), ("model.layers.0.self_attn:value", 5), (STATE, 10)]
)
def test_a_break_in_the_baselines_cache_is_no_kernels_fault(
    tmp_path: Path, site: str, position: int
) -> None:
    """The cell where the arms part is the cached value, and the warning says whose."""
    plant = Plant(site, position, Moment.IN, request="r1")
    found = report(
        toy(tmp_path / "a.h5", [FILL, REUSE], plant), toy(tmp_path / "b.h5", [FILL, REUSE])
    )
    first = found.origins[0]
    assert (first.site, first.position, first.origin_kind) == (site, position, OriginKind.STATE)
    assert any("baseline's own cache" in warning for warning in found.warnings)


def test_a_change_of_unknown_size_is_not_called_rounding(tmp_path: Path) -> None:
    """Without sketches nothing is known of how far a broken key is off."""
    plant = Plant(KEY, 5, Moment.IN, request="r1", scale=50.0)
    cold = toy(tmp_path / "a.h5", [COLD], sketches=False)
    found = report(cold, toy(tmp_path / "b.h5", [FILL, REUSE], plant, sketches=False))
    assert found.origins[0].site == KEY
    assert found.origins[0].severity.size is SizeClass.UNKNOWN


def rows(
    path: Path,
    versions: list[float],
    *,
    names: tuple[str, ...] = ("r1",),
    site: str = "model.layers.0:out",
    header: dict[str, object] | None = None,
) -> Path:
    """Requests of three tokens whose row at position 1 is computed once for each version."""
    with DumpBuilder(path, arm="run", header=header) as builder:
        builder.site(site, layer_index=0)
        for name in names:
            request = builder.request(name, TOKENS[:3])
            builder.observe(site, np.ones((3, 4), np.float32), [(request, 0, 3)])
            builder.commit([(request, 0, 3)])
            for value in versions:
                row = np.full((1, 4), value, np.float32)
                builder.observe(site, row, [(request, 1, 2)])
                builder.commit([(request, 1, 2)])
    return path


def test_every_version_of_either_arm_is_compared(tmp_path: Path) -> None:
    """A replay that only one arm did, with other bits, is a difference whichever arm it was."""
    once, twice = rows(tmp_path / "a.h5", []), rows(tmp_path / "b.h5", [2.0])
    assert report(once, twice).verdict is Verdict.DIVERGED
    assert report(twice, once).verdict is Verdict.DIVERGED
    same = rows(tmp_path / "c.h5", [1.0])
    assert report(same, once).verdict is Verdict.IDENTICAL


def test_requests_of_one_name_keep_their_own_hits(tmp_path: Path) -> None:
    """A hit in a cold arm is not hidden by a later request of the same name."""
    paths = []
    for name, hit in (("a", 0), ("b", 2)):
        paths.append(tmp_path / f"{name}.h5")
        with DumpBuilder(paths[-1], arm="cold") as builder:
            builder.site("model.layers.0:out", layer_index=0)
            for served in (hit, 0):
                request = builder.request("r1", TOKENS[:3], hit=served)
                ran, rows = [(request, served, 3)], np.ones((3 - served, 4), np.float32)
                builder.observe("model.layers.0:out", rows, ran)
                builder.commit(ran)
    found = report(*paths)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert [cause.cause for cause in found.arm_causes] == [Cause.COLD_NOT_COLD]
    assert found.coverage.hit_tokens == {"r1": 2, "r1#2": 0}


def test_each_forced_pair_is_compared(tmp_path: Path) -> None:
    """One baseline request may be compared with several of the candidate."""
    a = Dump.open(rows(tmp_path / "a.h5", []))
    with DumpBuilder(tmp_path / "b.h5", arm="run") as builder:
        builder.site("model.layers.0:out", layer_index=0)
        for name, value in (("x", 2.0), ("y", 1.0)):
            request = builder.request(name, TOKENS[:3])
            values = np.full((3, 4), value, np.float32)
            builder.observe("model.layers.0:out", values, [(request, 0, 3)])
            builder.commit([(request, 0, 3)])
    b = Dump.open(tmp_path / "b.h5")
    found = compare_dumps(a, b, forced=[("r1", "x"), ("r1", "y")]).report
    assert found.verdict is Verdict.DIVERGED


def test_a_site_of_another_role_is_another_site(tmp_path: Path) -> None:
    """A drafter's layer does not stand in for the target's."""
    paths = []
    for roles in ((Role.TARGET, Role.DRAFTER), (Role.TARGET,)):
        paths.append(tmp_path / f"{len(roles)}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", TOKENS[:3])
            span = [(request, 0, 3)]
            builder.site("layers.0:out", layer_index=0, role=Role.TARGET)
            builder.observe("layers.0:out", np.ones((3, 4), np.float32), span)
            if Role.DRAFTER in roles:
                builder.site("draft.0:out", layer_index=0, role=Role.DRAFTER)
                builder.observe("draft.0:out", np.ones((3, 4), np.float32), span)
            builder.commit(span)
    found = report(*paths)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any("missing in the candidate" in gap for gap in found.coverage.gaps)


def test_other_digests_are_not_compared(tmp_path: Path) -> None:
    """Equal rows have different digests under another algorithm."""
    a = rows(tmp_path / "a.h5", [], header={"digest": "xxh3-64/row/1"})
    b = rows(tmp_path / "b.h5", [], header={"digest": "xxh3-64/row/2"})
    with pytest.raises(PairingError, match="other digests"):
        report(a, b)


def state_dump(path: Path, values: list[float], mixer: bool) -> Path:
    """A state that is left at 2, read at 2 and left at 4, with or without its mixer's rows."""
    with DumpBuilder(path, arm="run") as builder:
        request = builder.request("r1", TOKENS[:4])
        builder.site("in", layer_index=0)
        builder.site(
            "state",
            kind=TensorKind.RECURRENT_STATE,
            layer_index=0,
            reach=Reach.STATE,
            inputs=["in"],
        )
        if mixer:
            builder.site("out", layer_index=0, reach=Reach.STATE, inputs=["in", "state"])
        seen = iter(values)
        for start in (0, 2):
            span = [(request, start, start + 2)]
            builder.observe("in", np.ones((2, 4), np.float32), span)
            moments = [(Moment.IN, start)] * bool(start) + [(Moment.OUT, start + 2)]
            for moment, at in moments:
                state = np.full((1, 2, 3), next(seen), np.float32)
                builder.observe("state", state, [(request, at, at + 1)], moment=moment, parts=True)
            if mixer:
                builder.observe("out", np.ones((2, 4), np.float32), span)
            builder.commit(span)
    return path


@pytest.mark.parametrize("mixer", [True, False])
def test_a_state_is_judged_with_or_without_its_mixer(tmp_path: Path, mixer: bool) -> None:
    """A recording narrowed to states still finds the one that changed, once."""
    healthy = state_dump(tmp_path / "a.h5", [1.0, 1.0, 3.0], mixer)
    broken = state_dump(tmp_path / "b.h5", [1.0, 2.0, 3.0], mixer)
    assert report(healthy, healthy).verdict is Verdict.IDENTICAL
    found = report(healthy, broken)
    assert [(o.site, o.position, o.moment) for o in found.origins] == [("state", 2, "in")]


def test_a_state_that_a_kernel_left_is_not_blamed_on_the_cache(tmp_path: Path) -> None:
    """The pass left the state as it had found it: no rule about what was read applies, but one."""
    healthy = state_dump(tmp_path / "a.h5", [1.0, 1.0, 3.0], True)
    stuck = state_dump(tmp_path / "b.h5", [1.0, 1.0, 1.0], True)
    first = report(healthy, stuck).origins[0]
    assert (first.position, first.moment, first.cause) == (4, "out", Cause.STATE_NOT_WRITTEN)


def test_one_zero_state_in_a_batch_is_state_zero(tmp_path: Path) -> None:
    """The other row of the batch does not make it less zero."""
    paths = []
    for name, second in (("a", 2.0), ("b", 0.0)):
        paths.append(tmp_path / f"{name}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            requests = [builder.request(f"r{i}", TOKENS[i : i + 4]) for i in (0, 1)]
            builder.site("in", layer_index=0)
            builder.site(
                "state", kind=TensorKind.RECURRENT_STATE, reach=Reach.STATE, inputs=["in"]
            )
            for start in (0, 2):
                spans = [(r, start, start + 2) for r in requests]
                builder.observe("in", np.ones((4, 4), np.float32), spans)
                if start:
                    state = np.stack([np.ones((2, 3)), np.full((2, 3), second)])
                    at = [(r, 2, 3) for r in requests]
                    builder.observe(
                        "state", state.astype(np.float32), at, moment=Moment.IN, parts=True
                    )
                builder.commit(spans)
    assert report(*paths).origins[0].cause is Cause.STATE_ZERO


def test_logits_that_an_arm_never_made_are_missing(tmp_path: Path) -> None:
    """Rows that one arm's head skipped are accounted for; a head that never ran is not."""
    paths = []
    for heads in ([0, 1, 2, 3], [3], []):
        paths.append(tmp_path / f"{len(heads)}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", TOKENS[:4])
            builder.site("norm:out")
            builder.site("head:out", kind=TensorKind.LOGITS, inputs=["norm:out"])
            builder.observe("norm:out", np.ones((4, 4), np.float32), [(request, 0, 4)])
            for at in heads:
                builder.observe("head:out", np.ones((1, 9), np.float32), [(request, at, at + 1)])
            builder.commit([(request, 0, 4)])
    assert report(paths[0], paths[1]).verdict is Verdict.IDENTICAL
    assert report(paths[0], paths[2]).verdict is Verdict.INCONCLUSIVE


def test_what_is_made_of_logits_that_an_arm_skipped(tmp_path: Path) -> None:
    """The best tokens of a row whose head one arm did not run follow from it too."""
    paths = []
    for heads in ([0, 1, 2, 3], [3], []):
        paths.append(tmp_path / f"{len(heads)}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", TOKENS[:4])
            builder.site("norm:out")
            builder.site("head:out", kind=TensorKind.LOGITS, inputs=["norm:out"])
            builder.site("given:out", kind=TensorKind.LOGITS, inputs=["head:out"])
            builder.site("given:best", kind=TensorKind.TOPK, inputs=["given:out"])
            builder.observe("norm:out", np.ones((4, 4), np.float32), [(request, 0, 4)])
            for at in heads:
                for name in ("head:out", "given:out", "given:best"):
                    builder.observe(name, np.ones((1, 9), np.float32), [(request, at, at + 1)])
            builder.commit([(request, 0, 4)])
    assert report(paths[0], paths[1]).verdict is Verdict.IDENTICAL
    assert report(paths[1], paths[0]).verdict is Verdict.IDENTICAL
    assert report(paths[0], paths[2]).verdict is Verdict.INCONCLUSIVE


def test_a_generated_token_that_flips_alone_is_a_difference(tmp_path: Path) -> None:
    """Every row agrees up to it, and still the runs part there."""
    paths = []
    for last in (1, 2):
        paths.append(tmp_path / f"{last}.h5")
        with DumpBuilder(paths[-1], arm="run") as builder:
            request = builder.request("r1", [7, 7, last], given=2)
            builder.site("model.layers.0:out", layer_index=0)
            values = np.ones((3, 4), np.float32)
            builder.observe("model.layers.0:out", values, [(request, 0, 3)])
            builder.commit([(request, 0, 3)])
    found = report(*paths)
    assert found.verdict is Verdict.DIVERGED
    assert (found.origins[0].tensor, found.origins[0].position) == ("tokens", 2)


def test_a_cache_that_breaks_alike_in_both_arms_is_a_warning(tmp_path: Path) -> None:
    """A repeat of a broken run repeats: the arms agree, and what broke is said."""
    plant = Plant(KEY, 5, Moment.IN, request="r1")
    found = report(
        toy(tmp_path / "a.h5", [FILL, REUSE], plant), toy(tmp_path / "b.h5", [FILL, REUSE], plant)
    )
    assert found.verdict is Verdict.IDENTICAL
    assert any(KEY in warning for warning in found.warnings)


def test_a_state_that_was_only_saved_is_kept_in_custody(tmp_path: Path) -> None:
    """Where no pass ends, what was saved stands for what was left there."""
    tokens, at = (5, 3, 8, 1, 2, 7), 3

    def run(path: Path, arm: str, read: float) -> Dump:
        with DumpBuilder(path, arm=arm) as builder:
            builder.site("embed")
            builder.site("state", kind=TensorKind.RECURRENT_STATE, layer_index=0, inputs=["embed"])
            reach = Reach.STATE
            builder.site("out", layer_index=0, reach=reach, inputs=["embed", "state"])
            fill = builder.request("fill", tokens)
            for name in ("embed", "out"):
                builder.observe(name, np.ones((6, 4), np.float32), [(fill, 0, 6)])
            saved = [(fill, at, at + 1)]
            values = np.full((1, 1, 4), 2, np.float32)
            builder.observe("state", values, saved, moment=Moment.SAVED, parts=True)
            builder.commit([(fill, 0, 6)])
            if arm == "warm":
                again = builder.request("r1", tokens, hit=at, source=fill)
                span = [(again, at, at + 1)]
                found = np.full((1, 1, 4), read, np.float32)
                builder.observe("state", found, span, moment=Moment.IN, parts=True)
                for name in ("embed", "out"):
                    rows = np.full((3, 4), 1 + (name == "out" and read != 2), np.float32)
                    builder.observe(name, rows, [(again, at, 6)])
                builder.commit([(again, at, 6)])
        return Dump.open(path)

    cold = run(tmp_path / "cold.h5", "cold", 2)
    broken = compare_dumps(cold, run(tmp_path / "warm.h5", "warm", 5)).report.origins[0]
    assert (broken.site, broken.position, broken.moment) == ("state", at, "in")
    assert broken.cause is Cause.STATE_CORRUPTED
    sound = compare_dumps(cold, run(tmp_path / "sound.h5", "warm", 2)).report
    assert not sound.origins


@pytest.mark.parametrize(
    ("read", "dtype", "cause", "words"),
    [
        (np.nan, np.float32, Cause.STATE_CORRUPTED, "NaN"),
        (1.0001, np.float16, Cause.DTYPE_REQUANT, "was left as float32"),
    ],
)
def test_a_state_that_a_narrow_cache_or_a_fault_changed(
    tmp_path: Path, read: float, dtype: type, cause: Cause, words: str
) -> None:
    """What was computed from a value after it was read is not where the value comes from."""
    tokens, at = (5, 3, 8, 1, 2, 7), 3

    def run(path: Path, hit: int) -> Dump:
        with DumpBuilder(path, arm="warm" if hit else "cold") as builder:
            builder.site("embed")
            builder.site("state", kind=TensorKind.RECURRENT_STATE, layer_index=0, inputs=["embed"])
            fill = builder.request("fill", tokens[:at] if hit else tokens)
            stop = at if hit else len(tokens)
            builder.observe("embed", np.ones((stop, 4), np.float32), [(fill, 0, stop)])
            left = np.full((1, 1, 4), 1.0001, np.float32)
            left_at = [(fill, stop, stop + 1)]
            builder.observe("state", left, left_at, moment=Moment.OUT, parts=True)
            builder.commit([(fill, 0, stop)])
            if hit:
                again = builder.request("r1", tokens, hit=at, source=fill)
                found: Any = np.full((1, 1, 4), read, dtype)
                looked = [(again, at, at + 1)]
                builder.observe("state", found, looked, moment=Moment.IN, parts=True)
                builder.observe("embed", np.ones((3, 4), np.float32), [(again, at, 6)])
                after = [(again, 6, 7)]
                last = found if np.isnan(read) else left
                builder.observe("state", last, after, moment=Moment.OUT, parts=True)
                builder.commit([(again, at, 6)])
        return Dump.open(path)

    report = compare_dumps(run(tmp_path / "a.h5", 0), run(tmp_path / "b.h5", at)).report
    first = report.origins[0]
    assert (first.position, first.moment, first.cause) == (at, "in", cause)
    assert words in first.evidence[0].fact
