"""States of another request, where some of them sum up a few tokens and say little alone."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.comparison import compare_dumps
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import Cause, Moment, Reach, TensorKind

HIT = 4
OURS, THEIRS = (1, 2, 3, 4, 5, 6), (9, 8, 7, 4, 5, 6)
CONV, RECURRENT = "first:conv", "layer:state"


def value(site: str, tokens: tuple[int, ...], position: int) -> np.ndarray:
    """A state after *position* tokens: f4 [1, 2, 4]; the convolution's is that of two tokens."""
    seen = tokens[:position][-2:] if site == CONV else tokens[:position]
    seed = [len(site), *seen]
    return np.random.default_rng(seed).standard_normal((1, 2, 4)).astype(np.float32)


def record(path: Path, reads: dict[str, tuple[int, ...]] | None = None) -> Path:
    """A request on its own, or (with *reads*: whose state it reads) behind two that fill."""
    with DumpBuilder(path) as builder:
        builder.site("rows")
        kinds = {CONV: TensorKind.CONV_STATE, RECURRENT: TensorKind.RECURRENT_STATE}
        for index, (site, kind) in enumerate(kinds.items()):
            layer = None if site == CONV else index
            builder.site(site, kind=kind, reach=Reach.STATE, inputs=["rows"], layer_index=layer)
        if reads is None:
            request = builder.request("r", OURS)
            step(builder, request, OURS, 0, HIT)
        else:
            fill = builder.request("mine", OURS[:HIT])
            step(builder, fill, OURS, 0, HIT)
            step(builder, builder.request("theirs", THEIRS[:HIT]), THEIRS, 0, HIT)
            request = builder.request("r", OURS, hit=HIT, source=fill)
        step(builder, request, OURS, HIT, len(OURS), reads or {})
    return path


def step(
    builder: DumpBuilder,
    request: int,
    tokens: tuple[int, ...],
    start: int,
    stop: int,
    reads: dict[str, tuple[int, ...]] | None = None,
    *,
    look: bool = True,
) -> None:
    """One pass of rows and states; the states that it reads may be others', or go unseen."""
    rows = np.array(tokens[start:stop], np.float32)[:, None]
    builder.observe("rows", rows, [(request, start, stop)])
    for site in (CONV, RECURRENT):
        if start and look:
            found = value(site, (reads or {}).get(site, tokens), start)
            where = [(request, start, start + 1)]
            builder.observe(site, found, where, moment=Moment.IN, parts=True)
        left, where = value(site, tokens, stop), [(request, stop, stop + 1)]
        builder.observe(site, left, where, moment=Moment.OUT, parts=True)
    builder.commit([(request, start, stop)])


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return record(tmp_path / "cold.h5")


def compare(cold: Path, reads: dict[str, tuple[int, ...]]) -> Report:
    warm = record(cold.with_name("warm.h5"), reads)
    return compare_dumps(Dump.open(cold), Dump.open(warm)).report


def causes(report: Report) -> dict[str, Cause]:
    return {origin.site: origin.cause for origin in report.origins}


def test_states_of_one_other_request_are_all_its(cold: Path) -> None:
    """What sums up two tokens is believed where the state of the whole prefix is theirs too."""
    both = compare(cold, {CONV: THEIRS, RECURRENT: THEIRS})
    assert causes(both) == {CONV: Cause.STATE_FOREIGN, RECURRENT: Cause.STATE_FOREIGN}


def test_a_state_of_two_tokens_alone_names_nobody(cold: Path) -> None:
    """Any text with these two tokens has it."""
    origin = compare(cold, {CONV: THEIRS}).origins[0]
    assert origin.site == CONV
    assert origin.cause is not Cause.STATE_FOREIGN
    assert any(r.cause is Cause.STATE_FOREIGN for r in origin.ruled_out)


def test_a_state_beside_one_that_nobody_has_names_nobody(cold: Path) -> None:
    """The other state is broken in another way."""
    other = (3, 3, 3, 3)
    found = causes(compare(cold, {CONV: THEIRS, RECURRENT: other}))
    assert found[CONV] is not Cause.STATE_FOREIGN
    assert found[RECURRENT] is Cause.STATE_CORRUPTED


TURNS = (7, 4, 3, 9, 5, 6)
"""Its first two tokens are the last two of another request's first four."""
OWN = TURNS[:2]


def taken_over(
    path: Path, conv: tuple[int, ...], recurrent: tuple[int, ...], *others: str
) -> Path:
    """A hit that is given the convolution's window and the state after some tokens."""
    with DumpBuilder(path, arm="warm") as builder:
        builder.site("rows")
        kinds = {CONV: TensorKind.CONV_STATE, RECURRENT: TensorKind.RECURRENT_STATE}
        for site, kind in kinds.items():
            builder.site(site, kind=kind, reach=Reach.STATE, inputs=["rows"], layer_index=0)
        for name in others:
            step(builder, builder.request(name, THEIRS[:HIT]), THEIRS, 0, HIT)
        fill = builder.request("mine", TURNS[:HIT])
        step(builder, fill, TURNS, 0, 2)
        step(builder, fill, TURNS, 2, HIT)
        request = builder.request("r", TURNS, hit=HIT, source=fill)
        for site, tokens in ((CONV, conv), (RECURRENT, recurrent)):
            found, where = value(site, tokens, len(tokens)), [(request, HIT, HIT + 1)]
            builder.observe(site, found, where, moment=Moment.IN, parts=True)
        step(builder, request, TURNS, HIT, len(TURNS), look=False)
    return path


def trusted(path: Path) -> Path:
    with DumpBuilder(path, arm="cold") as builder:
        builder.site("rows")
        kinds = {CONV: TensorKind.CONV_STATE, RECURRENT: TensorKind.RECURRENT_STATE}
        for site, kind in kinds.items():
            builder.site(site, kind=kind, reach=Reach.STATE, inputs=["rows"], layer_index=0)
        step(builder, builder.request("r", TURNS), TURNS, 0, len(TURNS))
    return path


@pytest.mark.parametrize(
    ("recurrent", "others", "conv", "state"),
    [
        (THEIRS[:HIT], ("theirs",), Cause.STATE_FOREIGN, Cause.STATE_FOREIGN),
        (OWN, ("theirs",), Cause.STATE_WRONG_POSITION, Cause.STATE_WRONG_POSITION),
        (TURNS[:HIT], (), Cause.STATE_WRONG_POSITION, None),
        (TURNS[:HIT], ("theirs",), Cause.UNKNOWN, None),
    ],
)
def test_the_state_of_the_whole_prefix_says_whose_window_it_is(
    tmp_path: Path,
    recurrent: tuple[int, ...],
    others: tuple[str, ...],
    conv: Cause,
    state: Cause | None,
) -> None:
    """The window is that of another request, and that of an own earlier turn, by two tokens."""
    warm = taken_over(tmp_path / "warm.h5", OWN, recurrent, *others)
    cold = trusted(tmp_path / "cold.h5")
    found = causes(compare_dumps(Dump.open(cold), Dump.open(warm)).report)
    assert found[CONV] is conv
    assert found.get(RECURRENT) is state
