"""The explicit interface, with NumPy arrays and torch tensors."""

from pathlib import Path

import numpy as np
import pytest
import torch

from layerdiff.errors import CaptureError
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, TensorKind
from layerdiff_hooks import Recorder
from tests.layerdiff_hooks.reading import expected, read

HIDDEN = np.arange(40, dtype=np.float32).reshape(5, 8)
KEYS = np.arange(5 * 2 * 4, dtype=np.float32).reshape(5, 2, 4)
STATE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_an_engine_says_what_belongs_where(tmp_path: Path) -> None:
    """Rows of two requests in one pass, keys, a state, events, and tokens that were generated."""
    with Recorder(tmp_path / "a.h5", arm="warm", engine="toy") as recorder:
        kernel = recorder.kernel("toy_attention", source="toy.py:1", T_q=5)
        with (
            recorder.request("fill", [1, 2, 3], hit=0) as fill,
            recorder.request("a", [1, 2, 3, 4], hit=3, source=fill) as a,
        ):
            with recorder.forward_pass([("fill", 0, 3), (a, 3, 5)]) as index:
                recorder.observe("l0:in", HIDDEN, layer_index=0)
                recorder.observe(
                    "l0:key", KEYS, kind=TensorKind.KV_KEY, layer_index=0, inputs=["l0:in"]
                )
                recorder.observe(
                    "l0:out",
                    torch.from_numpy(HIDDEN),
                    layer_index=0,
                    reach=Reach.PREFIX,
                    inputs=["l0:in", "l0:key"],
                    kernel=kernel,
                )
                recorder.state(
                    "l0:state", STATE, request=a, position=5, moment=Moment.OUT, layer_index=0
                )
                recorder.event(EventKind.KV_READ, request=a, source=fill, start=0, stop=3)
            assert index == 0
            recorder.generated(a, [9])
    reading = read(tmp_path / "a.h5")
    assert reading.requests["a"].hit == 3
    assert reading.requests["a"].source == 0
    assert reading.positions("l0:key", Moment.COMPUTED, "a") == [3, 4]
    assert reading.cells["l0:out", Moment.COMPUTED, "a", 3] == [
        expected(torch.from_numpy(HIDDEN[3:4]))
    ]
    assert reading.cells["l0:state", Moment.OUT, "a", 5] == [expected(torch.from_numpy(STATE))]
    assert reading.dump.chain(1)[2].tolist() == [True] * 4 + [False]
    assert reading.dump.kernels[0].facts == {"T_q": 5}
    assert reading.dump.complete
    assert len(reading.dump.elements) == 2 + 2
    assert reading.troubles == []


def test_an_untold_hit_is_a_gap(tmp_path: Path) -> None:
    """Rows of a request that nobody began: its hit is unknown."""
    with (
        Recorder(tmp_path / "a.h5") as recorder,
        recorder.forward_pass([("loose", 0, 5)], phase="decode"),
    ):
        recorder.observe("l0:out", HIDDEN)
    reading = read(tmp_path / "a.h5")
    assert reading.requests["loose"].hit is None
    assert len(reading.texts(EventKind.GAP)) == 1
    assert Phase(int(reading.dump.passes["phase"][0])) is Phase.DECODE


def test_rows_must_be_as_many_as_positions(tmp_path: Path) -> None:
    """The message names the site and both numbers."""
    with (
        Recorder(tmp_path / "a.h5") as recorder,
        recorder.request("a", [1, 2], hit=0),
        recorder.forward_pass([("a", 0, 2)]),
        pytest.raises(CaptureError, match="l0:out: 5 rows were given for 2"),
    ):
        recorder.observe("l0:out", HIDDEN)


def test_rows_may_be_declared(tmp_path: Path) -> None:
    """A gather before the head: the rows are those that it kept."""
    with (
        Recorder(tmp_path / "a.h5") as recorder,
        recorder.request("a", [1, 2, 3], hit=0),
        recorder.forward_pass([("a", 0, 3)]),
    ):
        recorder.observe("head", HIDDEN[:1], kind=TensorKind.LOGITS, rows=[("a", 2, 3)])
    assert read(tmp_path / "a.h5").positions("head", Moment.COMPUTED, "a") == [2]
