"""What controls decide: each cause they settle, and the look-alike that they must not."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from layerdiff.comparison import Comparison, compare_dumps
from layerdiff.controls import ControlRun, arms_of, settle, wanted
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.testing import Plant, ToyRequest, toy_dump
from layerdiff.vocabulary import Cause, Confidence, Moment, Verdict

LAYERS = ("linear attention", "full attention") * 2
TOKENS = tuple(np.random.default_rng(0).integers(0, 32, 24).tolist())
HIT = 10
MIXER = "model.layers.0.linear_attn:out"
STATE = "model.layers.0.linear_attn:recurrent"
FILL = [ToyRequest("fill", TOKENS[:HIT]), ToyRequest("r1", TOKENS, takes="fill")]
ALONE = [ToyRequest("r1", TOKENS)]
SPLIT = [ToyRequest("r1", TOKENS, chunks=(HIT,))]
SHAPE = Plant(MIXER, HIT, scale=1 + 2**-20)
"""What a kernel that gives other bits at another shape makes of the first warm token."""


class Arms:
    """Dumps by name, compared as a hunt compares them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, arm: str, requests: Sequence[ToyRequest], *plants: Plant) -> "Arms":
        """Records an arm."""
        path = self._folder / f"{arm}.h5"
        header = "poison" if arm.startswith("poison") else arm
        toy_dump(path, requests, arm=header, layers=LAYERS, plants=plants)
        return self

    def compare(self, baseline: str, candidate: str) -> Comparison:
        """Two of them."""
        left, right = (Dump.open(self._folder / f"{arm}.h5") for arm in (baseline, candidate))
        return compare_dumps(left, right)

    def settle(self) -> Report:
        """The report with every control that was recorded."""
        names = sorted(path.stem for path in self._folder.glob("*.h5"))
        controls = [name for name in names if name not in ("cold", "warm")]
        runs = [ControlRun(name, self.compare(*arms_of(name))) for name in controls]
        return settle(self.compare("cold", "warm"), runs)


@pytest.fixture
def arms(tmp_path: Path) -> Arms:
    """A cold arm that repeats."""
    return Arms(tmp_path).run("cold", ALONE).run("cold-repeat", ALONE)


def shape(arms: Arms) -> Arms:
    """A warm arm whose first warm token has other bits, as a cold run in its chunks has."""
    arms.run("warm", FILL, SHAPE).run("warm-repeat", FILL, SHAPE)
    return arms.run("cold-split", SPLIT, SHAPE)


POISON = Plant(STATE, HIT, Moment.IN, request="r1", scale=3.0)
CONV = Plant("model.layers.0.linear_attn:conv", HIT, Moment.IN, request="r1", scale=3.0, element=2)


def poisoned(arms: Arms, *plants: Plant) -> Arms:
    """Each cached input of layer 0 overwritten by itself, beside what is planted anyway."""
    arms.run("poison-layer-0", FILL, *plants, POISON)
    return arms.run("poison-layer-0-conv", FILL, *plants, CONV)


class TestShapeDispatch:
    def test_split_equal_and_state_read(self, arms: Arms) -> None:
        """All that is left is the shape."""
        first = poisoned(shape(arms), SHAPE).settle().origins[0]
        assert (first.cause, first.confidence) == (Cause.SHAPE_DISPATCH, Confidence.PROVED)
        assert (first.site, first.position) == (MIXER, HIT)
        assert set(first.proved) == {"location", "mechanism"}
        assert {r.cause for r in first.ruled_out} >= {Cause.STATE_IGNORED, Cause.KERNEL_MISMATCH}

    def test_never_by_the_split_alone(self, arms: Arms) -> None:
        """Code that ignores its state in both arms gives equal bits too."""
        first = shape(arms).settle().origins[0]
        assert first.confidence is Confidence.SUSPECTED
        assert any("overwriting" in e.fact and not e.holds for e in first.evidence)

    def test_one_state_that_is_read_clears_no_other(self, arms: Arms) -> None:
        """The convolution may forget its state while the recurrence reads its own."""
        first = shape(arms).run("poison-layer-0", FILL, SHAPE, POISON).settle().origins[0]
        assert first.confidence is Confidence.SUSPECTED
        assert any("conv state" in e.fact and not e.holds for e in first.evidence)

    def test_what_is_overwritten_in_part_convicts_nobody(self, arms: Arms) -> None:
        """The oldest column of a convolution's state is not read by any token to come."""
        shape(arms).run("poison-layer-0", FILL, SHAPE, POISON)
        oldest = replace(CONV, element=0)
        first = arms.run("poison-layer-0-conv", FILL, SHAPE, oldest).settle().origins[0]
        assert (first.cause, first.confidence) == (Cause.SHAPE_DISPATCH, Confidence.SUSPECTED)

    def test_a_jump_is_no_rounding(self, arms: Arms) -> None:
        """Another order of arithmetic does not explain it, whatever a split run gives."""
        jump = Plant(MIXER, HIT, scale=3.0)
        for arm, requests in (("warm", FILL), ("warm-repeat", FILL), ("cold-split", SPLIT)):
            arms.run(arm, requests, jump)
        first = poisoned(arms, jump).settle().origins[0]
        assert (first.cause, first.confidence) == (Cause.SHAPE_DISPATCH, Confidence.SUSPECTED)
        assert "mechanism" not in first.proved

    def test_where_inputs_differ_a_split_run_tells_nothing(self, arms: Arms) -> None:
        """Its inputs are the candidate's: the site agrees whatever it does."""
        jump = Plant("model.layers.0.mlp:out", HIT, scale=3.0)
        for arm, requests in (("warm", FILL), ("warm-repeat", FILL), ("cold-split", SPLIT)):
            arms.run(arm, requests, SHAPE, jump)
        report = poisoned(arms, SHAPE, jump).settle()
        found = next(o for o in report.origins if o.site == "model.layers.0.mlp:out")
        assert (found.cause, found.confidence) == (Cause.UNKNOWN, Confidence.SUSPECTED)
        assert any("inputs differ already" in e.fact for e in found.evidence)

    def test_a_state_that_fades_is_read_all_the_same(self, arms: Arms) -> None:
        """Where the bits part late, what was overwritten may be forgotten by then."""
        late = len(TOKENS) - 1
        plant = Plant(MIXER, late, scale=1 + 2**-20)
        faint = Plant(STATE, HIT, Moment.IN, request="r1", scale=1 + 2**-22)
        arms.run("warm", FILL, plant).run("warm-repeat", FILL, plant)
        report = (
            arms.run("cold-split", SPLIT, plant).run("poison-layer-0", FILL, plant, faint).settle()
        )
        rows = arms.compare("warm", "poison-layer-0").pairs[-1].trace
        column = next(c for c in rows.columns.values() if c.site.name == MIXER)
        assert column.diff.differs[HIT:late].any()
        assert not column.diff.differs[late]
        assert report.origins[0].cause is Cause.SHAPE_DISPATCH

    def test_not_proved_without_repeats(self, arms: Arms) -> None:
        """A cell that was seen once may be noise."""
        arms.run("warm", FILL, SHAPE).run("cold-split", SPLIT, SHAPE)
        first = arms.run("poison-layer-0", FILL, SHAPE, POISON).settle().origins[0]
        assert first.confidence is not Confidence.PROVED
        assert "location" not in first.proved


class TestNondeterminism:
    def test_a_hit_that_disagrees_with_itself(self, arms: Arms) -> None:
        """The site differs between two warm runs whose inputs agree."""
        arms.run("warm", FILL, SHAPE)
        arms.run("warm-repeat", FILL, Plant(MIXER, HIT + 2, scale=1 + 2**-18))
        report = arms.settle()
        first = report.origins[0]
        assert (first.cause, first.confidence) == (Cause.NONDETERMINISM, Confidence.PROVED)
        assert not any("does not repeat" in warning for warning in report.warnings)

    def test_an_inherited_difference_is_not_it(self, arms: Arms) -> None:
        """A cell that is noisy because of what comes in is at most suspected."""
        noise = Plant("model.embed_tokens:out", HIT, request="r1", scale=1 + 2**-18)
        arms.run("warm", FILL, SHAPE).run("warm-repeat", FILL, SHAPE, noise)
        first = arms.settle().origins[0]
        assert first.cause is not Cause.NONDETERMINISM
        assert first.confidence is Confidence.SUSPECTED

    def test_a_speck_of_noise_does_not_hide_a_fault(self, arms: Arms) -> None:
        """What differs by rounding between repeats is not why the arms part by a jump."""
        fault, speck = Plant(MIXER, HIT, scale=3.0), Plant(MIXER, 3, scale=1 + 2**-20)
        arms.run("warm", FILL, fault).run("warm-repeat", FILL, fault, speck)
        first = arms.settle().origins[0]
        assert first.cause is not Cause.NONDETERMINISM
        assert any("far less" in e.fact for e in first.evidence)

    def test_repeats_in_other_chunks_are_no_repeats(self, arms: Arms) -> None:
        """Then it is the scheduling that does not repeat."""
        again = [FILL[0], ToyRequest("r1", TOKENS, takes="fill", chunks=(HIT + 5,))]
        other = Plant(MIXER, HIT, scale=1 + 2**-18)
        first = arms.run("warm", FILL, SHAPE).run("warm-repeat", again, other).settle().origins[0]
        assert first.cause is not Cause.NONDETERMINISM
        assert first.confidence is Confidence.SUSPECTED
        assert any("scheduling" in e.fact for e in first.evidence)

    def test_noise_that_the_arms_do_not_show_is_a_warning(self, arms: Arms) -> None:
        """Equal arms do not hide a run that does not repeat."""
        arms.run("warm", FILL).run("warm-repeat", FILL, SHAPE)
        report = arms.settle()
        assert report.verdict is Verdict.IDENTICAL
        assert any("does not repeat" in warning for warning in report.warnings)


class TestRemoval:
    def test_a_state_that_changed_is_proved_by_declining_the_hit(self, arms: Arms) -> None:
        """Without the restore the arms agree."""
        broken = Plant(STATE, HIT, Moment.IN, request="r1")
        arms.run("warm", FILL, broken).run("warm-repeat", FILL, broken).run("no-state", ALONE)
        first = arms.settle().origins[0]
        assert (first.site, first.position, first.moment) == (STATE, HIT, "in")
        assert (first.cause, first.confidence) == (Cause.STATE_CORRUPTED, Confidence.PROVED)

    def test_not_where_the_difference_stays(self, arms: Arms) -> None:
        """A control that changes nothing proves nothing."""
        broken = Plant(STATE, HIT, Moment.IN, request="r1")
        arms.run("warm", FILL, broken).run("warm-repeat", FILL, broken)
        first = arms.run("no-state", ALONE, Plant(MIXER, HIT)).settle().origins[0]
        assert first.confidence is not Confidence.PROVED
        assert "mechanism" not in first.proved


class TestBothWrong:
    def test_arms_that_agree_against_a_reference(self, arms: Arms) -> None:
        """Two equal arms are not right by that."""
        wrong = Plant(MIXER, HIT)
        for arm, requests in (("cold", ALONE), ("cold-repeat", ALONE), ("warm", FILL)):
            arms.run(arm, requests, wrong)
        report = arms.run("reference", ALONE).settle()
        first = report.origins[0]
        assert report.verdict is Verdict.DIVERGED
        assert (first.cause, first.site, first.position) == (Cause.BOTH_WRONG, MIXER, HIT)

    def test_a_jump_behind_rounding_is_suspected_at_most(self, arms: Arms) -> None:
        """A choice between near ties makes one in a healthy engine."""
        tie = Plant("model.layers.0.mlp:out", HIT, scale=3.0)
        report = arms.run("warm", FILL).run("reference", ALONE, SHAPE, tie).settle()
        first = report.origins[0]
        assert (first.cause, first.confidence) == (Cause.BOTH_WRONG, Confidence.SUSPECTED)
        assert not first.proved

    def test_rounding_against_a_reference_is_not_wrong(self, arms: Arms) -> None:
        """A reference may round otherwise."""
        report = arms.run("warm", FILL).run("reference", ALONE, SHAPE).settle()
        assert report.verdict is Verdict.IDENTICAL


class TestWanted:
    def test_a_kernel_behind_a_hit_asks_for_poison(self, arms: Arms) -> None:
        """Of its own layer, since any other would reach it through its input."""
        main = arms.run("warm", FILL, SHAPE).compare("cold", "warm")
        assert wanted(main) == ("poison-layer-0", "poison-layer-0-conv")
        assert wanted(main, ["poison-layer-0"]) == ("poison-layer-0-conv",)

    def test_a_broken_state_asks_for_a_declined_hit(self, arms: Arms) -> None:
        """That takes its cause away."""
        broken = Plant(STATE, HIT, Moment.IN, request="r1")
        assert wanted(arms.run("warm", FILL, broken).compare("cold", "warm"))[0] == "no-state"

    def test_equal_arms_ask_for_a_planted_change(self, arms: Arms) -> None:
        """Equal means equal only where a change would have been seen."""
        assert wanted(arms.run("warm", FILL).compare("cold", "warm")) == ("poison-layer-0",)

    def test_cold_arms_that_agree_ask_for_nothing(self, arms: Arms) -> None:
        """Nothing was restored."""
        assert wanted(arms.compare("cold", "cold-repeat")) == ()


def test_every_control_knows_its_arms() -> None:
    """Whatever the arms of the case are called."""
    assert arms_of("warm-repeat-2", "off", "on") == ("on", "warm-repeat-2")
    assert arms_of("poison-layer-3") == ("warm", "poison-layer-3")
    with pytest.raises(ValueError, match="nonsense"):
        arms_of("nonsense")
