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
) -> None:
    """One pass of rows and states; the states that it reads may be others'."""
    rows = np.array(tokens[start:stop], np.float32)[:, None]
    builder.observe("rows", rows, [(request, start, stop)])
    for site in (CONV, RECURRENT):
        if start:
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
