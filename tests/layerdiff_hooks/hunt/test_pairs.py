"""Which requests a hunt compares: by name, else by prompt; none is left out in silence."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.pairing import labels
from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import Cause, Verdict
from layerdiff_hooks import Recorder
from layerdiff_hooks.hunt import Arm
from layerdiff_hooks.hunt.partners import find_partners
from tests.layerdiff_hooks.hunt.hunts import hunt
from tests.layerdiff_hooks.hunt.toy_engine import FILL, PROMPT, ToyCase, ToyEngine

A, B, C = (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11)
Asked = tuple[str, tuple[int, ...], int | None]
"""Name, tokens and told hit."""


def run(path: Path, asked: Sequence[Asked]) -> Dump:
    """A dump of requests in which nothing was observed."""
    with DumpBuilder(path) as builder:
        for name, tokens, hit in asked:
            request = builder.request(name, tokens, hit=hit)
            builder.commit([(request, hit or 0, len(tokens))])
    return Dump.open(path)


def paired(
    path: Path, baseline: Sequence[Asked], candidate: Sequence[Asked], *, mates: bool = True
) -> tuple[list[tuple[str, str]], list[str], list[str]] | None:
    """Pairs by label, and what is told as unpaired on either side."""
    dumps = run(path / "a.h5", baseline), run(path / "b.h5", candidate)
    assert all(len(set(labels(dump))) == len(dump.requests) for dump in dumps)
    found = find_partners(*dumps, mates=mates)
    if found is None:
        return None
    return (
        [(pair.baseline.name, pair.candidate.name) for pair in found.pairs],
        [prompt.name for prompt in found.unpaired_baseline],
        [prompt.name for prompt in found.unpaired_candidate],
    )


def test_names_pair_and_what_fills_is_left_out(tmp_path: Path) -> None:
    """Whatever the prompt of the filling request, the compared one's own included."""
    for fill in (A[:2], A, C):
        found = paired(tmp_path, [("r1", A, 0)], [("fill", fill, 0), ("r1", A, 2)])
        assert found == ([("r1", "r1")], [], [])


def test_the_same_names_are_left_to_their_prompts(tmp_path: Path) -> None:
    """As ``layerdiff diff`` pairs them; and so where nothing pairs at all."""
    assert paired(tmp_path, [("r1", A, 0)], [("r1", A, 2)]) is None
    assert paired(tmp_path, [("r1", A, 0)], [("x", B, 2)]) is None


def test_prompts_pair_what_names_do_not(tmp_path: Path) -> None:
    """An engine that counts its requests calls them otherwise."""
    found = paired(
        tmp_path,
        [("r1", A, 0), ("r2-1", B, 0)],
        [("fill", C, 0), ("r1", A, 2), ("r2-2", B, 2)],
    )
    assert found == ([("r1", "r1"), ("r2-1", "r2-2")], [], [])


def test_numbers_that_the_filling_request_moved_on(tmp_path: Path) -> None:
    """Namesakes of other prompts are no pair where the prompts run under other names."""
    cold = [("r1", A, 0), ("r2", B, 0)]
    served = [("r1", A[:2], 0), ("r2", A, 2), ("r3", B, 2)]
    assert paired(tmp_path, cold, served) == ([("r1", "r2"), ("r2", "r3")], [], [])
    declined = [(name, tokens, 0) for name, tokens, _ in served]
    assert paired(tmp_path, cold, declined) == ([("r1", "r2"), ("r2", "r3")], [], [])


def test_other_tokens_under_one_name_stay_a_pair(tmp_path: Path) -> None:
    """The look-alike: the compared request was given other tokens, its fill has the right ones."""
    for hit in (0, 2):
        found = paired(tmp_path, [("r1", A, 0)], [("fill", A, 0), ("r1", (*A[:3], 9), hit)])
        assert found == ([("r1", "r1")], [], [])


def test_what_was_served_or_expected_is_told(tmp_path: Path) -> None:
    """A request of the baseline, or one with a hit, or whose hit nobody told."""
    found = paired(tmp_path, [("r1", A, 0), ("r2", B, 0)], [("fill", C, 0), ("r1", A, 2)])
    assert found == ([("r1", "r1")], ["r2"], [])
    for hit in (2, None):
        found = paired(tmp_path, [("r1", A, 0)], [("r1", A, 2), ("r2", B, hit)])
        assert found == ([("r1", "r1")], [], ["r2"])


def test_mates_are_left_out_where_that_was_asked(tmp_path: Path) -> None:
    """A solo run has none."""
    found = paired(tmp_path, [("r1", A, 0), ("mate", B, 0)], [("r1", A, 2)], mates=False)
    assert found == ([("r1", "r1")], [], [])


def test_several_of_one_prompt(tmp_path: Path) -> None:
    """By order; of more than the baseline has, those without a hit filled the cache."""
    cold = [("r1", C, 0), ("a", A, 0)]
    warm = [("f", A, 0), ("r1", C, 2), ("b", A, 2)]
    assert paired(tmp_path, cold, warm) == ([("r1", "r1"), ("a", "b")], [], [])
    more = [*warm, ("c", A, 2)]
    assert paired(tmp_path, cold, more) == ([("r1", "r1"), ("a", "b"), ("a", "c")], [], [])
    both = [("r1", C, 0), ("a", A, 0), ("a2", A, 0)]
    assert paired(tmp_path, both, warm) == ([("a", "f"), ("r1", "r1"), ("a2", "b")], [], [])
    again = [("r1", A, 0), ("x", A, 2), ("fill", C, 0)]
    assert paired(tmp_path, [("r1", A, 0)], again) == ([("r1", "r1"), ("r1", "x")], [], [])


def test_a_served_twin_that_fills_is_left_out(tmp_path: Path) -> None:
    """Its rows are compared with those of the request that stands on them."""
    path = tmp_path / "b.h5"
    with DumpBuilder(path) as builder:
        filling = builder.request("fill", A, hit=2)
        builder.commit([(filling, 2, 4)])
        request = builder.request("r1", A, hit=3, source=filling)
        builder.commit([(request, 3, 4)])
    found = find_partners(run(tmp_path / "a.h5", [("r1", A, 0)]), Dump.open(path))
    assert found is not None
    assert [pair.candidate.name for pair in found.pairs] == ["r1"]


class Numbered(ToyCase):
    """Two compared requests; the engine counts the second one's name on from the fill."""

    second_of: tuple[int, ...] = (*FILL[:16], 50, 51)
    between = False
    """Whether a further request takes the first one's cache over and hands it on."""

    def run(self, arm: Arm, recorder: Recorder) -> None:
        """As the toy, with a second request behind it."""
        engine = ToyEngine(recorder, caching=arm.caching)
        engine.poison = arm.poison
        reuse = arm.reuse and arm.restore
        if arm.fill:
            engine.generate("fill", FILL, reuse=reuse)
        if arm.fill and self.between:
            engine.generate("turn", (*PROMPT, *range(30, 40)), reuse=reuse)
        first = (*PROMPT, *range(30, 40), 44) if self.between else PROMPT
        layout = arm.layout or {}
        engine.generate("r1", first, reuse=reuse, chunks=layout.get("r1"))
        engine.fault = self.fault
        name = "r2-2" if arm.fill else "r2-1"
        engine.generate(name, self.second_of, reuse=reuse, chunks=layout.get("r2-2"))


def numbered(path: Path, fault: str = "", *, between: bool = False) -> Report:
    """What a hunt says."""
    case = Numbered()
    case.name, case.fault, case.between = "numbered", fault, between
    return hunt(case, path).report


def test_a_hunt_compares_a_request_of_another_name(tmp_path: Path) -> None:
    """Its zeroed state is found."""
    said = numbered(tmp_path, "zero")
    assert said.verdict is Verdict.DIVERGED
    assert (said.origins[0].request_id, said.origins[0].cause) == ("r2-2", Cause.STATE_ZERO)


@pytest.mark.parametrize("between", [False, True])
def test_a_healthy_one_is_identical(tmp_path: Path, between: bool) -> None:
    """The look-alike; what only fills stays out, even if it was served itself."""
    said = numbered(tmp_path, between=between)
    assert said.verdict is Verdict.IDENTICAL
    assert set(said.coverage.hit_tokens) == {"r1", "r2-2"}


class Unasked(ToyCase):
    """One request more than cold has, where something was filled."""

    def run(self, arm: Arm, recorder: Recorder) -> None:
        """As the toy, and another prompt behind it."""
        super().run(arm, recorder)
        if arm.fill:
            engine = ToyEngine(recorder)
            engine.generate("other", range(20))
            if arm.name == "warm":
                engine.generate("served", (*range(20), 1, 2))


def test_a_served_request_that_is_left_out_is_a_gap(tmp_path: Path) -> None:
    """It was reused, and nothing says what cold gives."""
    case = Unasked()
    case.name = "unasked"
    said = hunt(case, tmp_path).report
    assert said.verdict is Verdict.INCONCLUSIVE
    (gap,) = said.coverage.gaps
    assert "request 'served' of the candidate has no partner" in gap
