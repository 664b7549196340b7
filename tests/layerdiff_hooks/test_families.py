"""Every family, without configuration: the same bits with and without recording, all recorded."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from layerdiff.vocabulary import Moment, TensorKind
from layerdiff_hooks import record
from tests.families import CONFIGS, build, tokens
from tests.layerdiff_hooks.reading import Reading, read
from tests.layerdiff_hooks.truth import (
    check_layers,
    check_rows,
    check_states,
    layer_names,
    watching,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@pytest.fixture(params=[(f, d) for f in CONFIGS for d in DTYPES], ids=lambda p: f"{p[0]}-{p[1]}")
def model(request: pytest.FixtureRequest) -> Any:
    """A tiny model of each family and dtype."""
    family, dtype = request.param
    return build(family, DTYPES[dtype])


def run(model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    """A single forward, a prefill with two decode steps, and a generation."""
    with torch.no_grad():
        single = model(ids).logits
        filled = model(ids, use_cache=True)
        steps = [filled.logits]
        for token in (5, 6):
            step = model(torch.tensor([[token]]), cache=filled.cache)
            steps.append(step.logits)
        return [single, *steps, model.generate(ids, max_new_tokens=3, do_sample=False)]


def test_recording_changes_no_bit(model: Any, tmp_path: Path) -> None:
    """Logits and tokens are the same with hooks on; nothing is reported missing."""
    ids = tokens(1, 11)
    without = run(model, ids)
    with record(model, tmp_path / "a.h5"):
        recorded = run(model, ids)
    assert all(torch.equal(a, b) for a, b in zip(without, recorded, strict=True))
    reading = read(tmp_path / "a.h5")
    assert reading.troubles == []
    assert reading.dump.complete
    assert reading.whole == set()


def test_digests_are_those_of_the_raw_tensors(model: Any, tmp_path: Path) -> None:
    """Layer outputs, keys, values and states agree with tensors kept by other means."""
    ids = tokens(1, 14)
    with (
        torch.no_grad(),
        watching(model) as truth,
        record(model, tmp_path / "a.h5") as recorder,
        recorder.request("a", ids[0].tolist()),
    ):
        cache = model(ids[:, :9], use_cache=True).cache
        nine = copy.deepcopy(cache)
        model(ids[:, 9:13], cache=cache)
        thirteen = copy.deepcopy(cache)
        model(ids[:, 13:], cache=cache)
    reading = read(tmp_path / "a.h5")
    compared = check_layers(reading, truth, "a", 0, [(0, 9), (9, 13), (13, 14)])
    assert compared == 14 * len(layer_names(model))
    rows = check_rows(reading, cache, "a", Moment.COMPUTED)
    assert rows == check_rows(reading, cache, "a", Moment.OUT)
    states = [
        check_states(reading, held, "a", Moment.OUT, position)
        for held, position in ((nine, 9), (thirteen, 13), (cache, 14))
    ]
    assert rows + min(states) > 0
    assert_every_value_has_a_site(reading, cache)


def test_a_copied_cache_is_taken_over_and_read_in_full(model: Any, tmp_path: Path) -> None:
    """The second request's hit, source, and every value as it reads it."""
    ids = tokens(1, 14)
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder:
        with recorder.request("fill", ids[0, :10].tolist()):
            filled = model(ids[:, :10], use_cache=True).cache
        copied = copy.deepcopy(filled)
        with recorder.request("reuse", ids[0].tolist()):
            model(ids[:, 10:], cache=copied)
    reading = read(tmp_path / "a.h5")
    reuse, fill = reading.requests["reuse"], reading.requests["fill"]
    assert (reuse.hit, reuse.source) == (10, fill.index)
    assert (fill.hit, fill.source) == (0, None)
    rows = check_rows(reading, filled, "reuse", Moment.IN)
    states = check_states(reading, filled, "reuse", Moment.IN, 10)
    assert rows + states > 0
    assert check_states(reading, copied, "reuse", Moment.OUT, 14) == states
    assert reading.troubles == []
    positions, chain, given = reading.dump.chain(reuse.index)
    assert positions.tolist() == list(range(14))
    assert given.all()
    assert chain[:10].tolist() == reading.dump.chain(fill.index)[1].tolist()


def assert_every_value_has_a_site(reading: Reading, cache: Any) -> None:
    """Keys, values and states that exist in a cache layer have cells in the decoder layer."""
    kinds = {
        TensorKind.KV_KEY: "keys",
        TensorKind.KV_VALUE: "values",
        TensorKind.RECURRENT_STATE: "recurrent_states",
        TensorKind.CONV_STATE: "conv_states",
    }
    seen = {site for site, _, _, _ in reading.cells}
    for kind, attribute in kinds.items():
        with_site = {
            site.layer_index
            for site in reading.dump.sites
            if site.kind is kind and site.name in seen
        }
        holding = {i for i, layer in enumerate(cache.layers) if _holds(layer, attribute)}
        assert with_site == holding, kind


def _holds(layer: Any, attribute: str) -> bool:
    held = getattr(layer, attribute, None)
    if isinstance(held, dict):
        return any(state is not None for state in held.values())
    return held is not None
