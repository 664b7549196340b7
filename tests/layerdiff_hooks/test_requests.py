"""Who begins when: hits, sources, continued, copied, loaded, cut and static caches."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import StaticCache

from layerdiff.errors import CaptureError
from layerdiff.vocabulary import EventKind, Moment, Phase
from layerdiff_hooks import record
from tests.families import build, tokens
from tests.layerdiff_hooks.reading import Reading, read
from tests.layerdiff_hooks.truth import check_layers, check_rows, check_states, watching

IDS = tokens(1, 20)
GREEDY: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False}


def hits(reading: Reading) -> dict[str, tuple[int | None, int | None]]:
    """(hit, source) by request."""
    return {name: (r.hit, r.source) for name, r in reading.requests.items()}


@pytest.mark.parametrize("family", ["llama", "qwen3_next", "mamba"])
def test_a_continued_cache_is_the_same_request(family: str, tmp_path: Path) -> None:
    """Chunks and decode steps on one cache object: one request, later reads carried."""
    model = build(family)
    with torch.no_grad(), watching(model) as truth, record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :8], use_cache=True).cache
        model(IDS[:, 8:13], cache=cache)
        for i in (13, 14):
            model(IDS[:, i : i + 1], cache=cache)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None)}
    assert reading.troubles == []
    check_layers(reading, truth, "r0", 0, [(0, 8), (8, 13), (13, 14), (14, 15)])
    check_rows(reading, cache, "r0", Moment.OUT)
    check_states(reading, cache, "r0", Moment.OUT, 15)
    assert not any(moment is Moment.IN for _, moment, _, _ in reading.cells)
    assert any(moment is Moment.IN for _, moment, _, _ in reading.carried)
    phases = [Phase(int(p)) for p in reading.dump.passes["phase"][reading.dump.model_passes]]
    assert phases == [Phase.PREFILL, Phase.PREFILL, Phase.DECODE, Phase.DECODE]
    given = reading.dump.chain(0)[2]
    assert given.tolist() == [True] * 13 + [False] * 2


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_next", "mamba2", "lfm2"])
def test_a_copied_cache_in_bare_forwards_is_a_new_request(family: str, tmp_path: Path) -> None:
    """Another cache object with known bits: a hit, its source, its tokens."""
    model = build(family)
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :12], use_cache=True).cache
        model(IDS[:, 12:], cache=copy.deepcopy(cache))
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None), "r1": (12, 0)}
    assert reading.troubles == []
    assert reading.dump.chain(1)[0].tolist() == list(range(20))
    assert reading.values(EventKind.LOOKUP) == [0, 12]
    assert check_rows(reading, cache, "r1", Moment.IN) + check_states(
        reading, cache, "r1", Moment.IN, 12
    )


@pytest.mark.parametrize("family", ["llama", "qwen3_next", "mamba"])
def test_a_saved_and_loaded_cache_is_recognised(family: str, tmp_path: Path) -> None:
    """What went through a file has the same bits."""
    model = build(family)
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder:
        with recorder.request("fill", IDS[0, :12].tolist()):
            cache = model(IDS[:, :12], use_cache=True).cache
        torch.save(cache, tmp_path / "cache.pt")
        loaded = torch.load(tmp_path / "cache.pt", weights_only=False)
        with recorder.request("reuse", IDS[0].tolist()):
            model(IDS[:, 12:], cache=loaded)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"fill": (0, None), "reuse": (12, 0)}
    assert reading.troubles == []


def test_a_cache_filled_before_the_recording_has_an_unknown_writer(tmp_path: Path) -> None:
    """The hit is known from the cache, the writer is not, and without ids nor are its tokens."""
    model = build("qwen3_next")
    with torch.no_grad():
        cache = model(IDS[:, :12], use_cache=True).cache
        other = copy.deepcopy(cache)
        with record(model, tmp_path / "a.h5") as recorder:
            with recorder.request("told", IDS[0].tolist()):
                model(IDS[:, 12:], cache=cache)
            model(IDS[:, 12:], cache=other)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"told": (12, None), "r0": (12, None)}
    assert reading.dump.chain(0)[0].tolist() == list(range(20))
    assert any("which 12 tokens" in gap for gap in reading.texts(EventKind.GAP))
    reads = [e for e in reading.dump.events if e.kind is EventKind.KV_READ]
    assert [(e.start, e.stop, e.source_request, e.source_pass) for e in reads] == [
        (0, 12, None, None)
    ] * 2


def test_states_of_unknown_length_are_not_guessed(tmp_path: Path) -> None:
    """A cache of states does not say its length: token ids do, else it is a gap."""
    model = build("mamba")
    with torch.no_grad():
        cache = model(IDS[:, :12], use_cache=True).cache
        other = copy.deepcopy(cache)
        with record(model, tmp_path / "a.h5") as recorder:
            with recorder.request("told", IDS[0].tolist()):
                model(IDS[:, 12:], cache=cache)
            model(IDS[:, 12:], cache=other)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"told": (12, None), "r0": (None, None)}
    assert reading.positions("backbone.layers.0:out", Moment.COMPUTED, "told") == list(
        range(12, 20)
    )
    assert not any(request == "r0" for _, _, request, _ in reading.cells)


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
def test_generate_with_a_reused_cache_has_a_hit(family: str, tmp_path: Path) -> None:
    """A prompt cache copied into ``generate``: its prefix is the hit, all input ids are given."""
    model = build(family)
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :12], use_cache=True).cache
        model.generate(IDS, past_key_values=copy.deepcopy(cache), **GREEDY)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None), "r1": (12, 0)}
    assert reading.troubles == []
    positions, _, given = reading.dump.chain(1)
    assert positions.tolist() == list(range(22))
    assert given.tolist() == [True] * 20 + [False] * 2


def test_each_generate_is_a_request_of_its_own(tmp_path: Path) -> None:
    """A second turn on the same cache object takes it over from the first."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        first = model.generate(IDS[:, :8], return_dict_in_generate=True, **GREEDY)
        longer = torch.cat([first.sequences, IDS[:, 8:10]], 1)
        model.generate(longer, past_key_values=first.past_key_values, **GREEDY)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None), "r1": (10, 0)}
    assert reading.troubles == []
    reads = [e for e in reading.dump.events if e.kind is EventKind.KV_READ and e.request == 1]
    assert [(e.start, e.stop, e.source_request, e.source_pass) for e in reads[:3]] == [
        (0, 8, 0, 0),
        (8, 9, 0, 1),
        (9, 10, 0, 2),
    ]


def test_a_request_goes_on_with_a_copy_of_its_own_cache(tmp_path: Path) -> None:
    """Inside a block a copy is resumed, read in full, and what stayed behind keeps its length."""
    model = build("mamba")
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder:
        with recorder.request("a", IDS[0].tolist()):
            kept = model(IDS[:, :8], use_cache=True).cache
            model(IDS[:, 8:], cache=copy.deepcopy(kept))
        with recorder.request("b", IDS[0].tolist()):
            model(IDS[:, 8:], cache=kept)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"a": (0, None), "b": (8, 0)}
    assert reading.troubles == []
    state = "backbone.layers.1.mixer:recurrent"
    assert reading.positions(state, Moment.IN, "a") == [8]
    assert reading.positions(state, Moment.OUT, "a") == [8, 20]


def test_an_unknown_state_in_chunks_is_placed_by_its_tokens(tmp_path: Path) -> None:
    """The forwarded tokens lie at one place of the prompt: that is where the state stands."""
    model = build("mamba")
    with torch.no_grad():
        cache = model(IDS[:, :8], use_cache=True).cache
        with (
            record(model, tmp_path / "a.h5") as recorder,
            recorder.request("a", IDS[0].tolist()),
        ):
            model(IDS[:, 8:13], cache=cache)
            model(IDS[:, 13:], cache=cache)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"a": (8, None)}
    site = "backbone.layers.0:out"
    assert reading.positions(site, Moment.COMPUTED, "a") == list(range(8, 20))


def test_generate_inside_a_request_belongs_to_it(tmp_path: Path) -> None:
    """The request's name stands, and its prompt is what ``generate`` was given."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder, recorder.request("mine"):
        model.generate(IDS[:, :8], **GREEDY)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"mine": (0, None)}
    assert reading.dump.chain(0)[2].tolist() == [True] * 8 + [False] * 2


def test_generation_without_a_cache_computes_positions_again(tmp_path: Path) -> None:
    """Every pass starts at position 0 of the same request."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        model.generate(IDS[:, :8], use_cache=False, **GREEDY)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None)}
    assert reading.troubles == []
    assert len(reading.cells["model.layers.0:out", Moment.COMPUTED, "r0", 0]) == 3
    assert reading.positions("model.layers.0:out", Moment.COMPUTED, "r0") == list(range(10))


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_a_static_cache_counts_its_filled_slots(family: str, tmp_path: Path) -> None:
    """Slots beyond the tokens are no rows, before and after a sliding window is full."""
    model = build(family)
    cache = StaticCache(config=model.config, max_cache_len=32)
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder:
        with recorder.request("a", IDS[0].tolist()):
            model(IDS[:, :5], past_key_values=cache, use_cache=True)
            model(IDS[:, 5:15], past_key_values=cache)
            model(IDS[:, 15:16], past_key_values=cache)
        with recorder.request("b", IDS[0].tolist()):
            model(IDS[:, 16:17], past_key_values=cache)
    reading = read(tmp_path / "a.h5")
    assert reading.troubles == []
    assert hits(reading) == {"a": (0, None), "b": (16, 0)}
    for site, moment, request, position in list(reading.cells):
        if moment is Moment.IN and request == "b":
            computed = reading.cells[site, Moment.COMPUTED, "a", position]
            assert reading.cells[site, moment, request, position] == computed
    full = "model.layers.2.self_attn:key"
    assert reading.positions(full, Moment.IN, "b") == list(range(16))
    assert reading.positions(full, Moment.OUT, "b") == list(range(17))


def test_a_cut_cache_goes_on_at_its_new_length(tmp_path: Path) -> None:
    """``crop`` between passes is a truncation, and the next rows take its positions."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :12], use_cache=True).cache
        cache.crop(-4)
        model(IDS[:, 8:14], cache=cache)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None)}
    assert reading.values(EventKind.TRUNCATE) == [8]
    assert reading.positions("model.layers.0:out", Moment.COMPUTED, "r0") == list(range(14))
    assert len(reading.cells["model.layers.0:out", Moment.COMPUTED, "r0", 9]) == 2
    assert reading.troubles == []


def test_a_cut_copy_is_recognised_at_its_length(tmp_path: Path) -> None:
    """A prefix of a known cache: the hit is its length."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = copy.deepcopy(model(IDS[:, :12], use_cache=True).cache)
        cache.crop(-5)
        model(IDS[:, 7:], cache=cache)
    reading = read(tmp_path / "a.h5")
    assert hits(reading) == {"r0": (0, None), "r1": (7, 0)}
    assert reading.troubles == []


def test_a_value_changed_between_passes_is_hashed_again(tmp_path: Path) -> None:
    """An in-place write to the cache ends carrying: the changed row is seen as read."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :8], use_cache=True).cache
        cache.layers[1].keys[0, 0, 3, 5] += 1
        model(IDS[:, 8:9], cache=cache)
    reading = read(tmp_path / "a.h5")
    site = "model.layers.1.self_attn:key"
    changed = [
        p
        for p in range(8)
        if reading.cells[site, Moment.IN, "r0", p] != reading.cells[site, Moment.COMPUTED, "r0", p]
    ]
    assert changed == [3]
    assert reading.carried_positions("model.layers.0.self_attn:key", "r0") == list(range(8))


def test_a_write_that_leaves_no_trace_is_seen_at_the_end(tmp_path: Path) -> None:
    """Through ``.data`` nothing is counted; the last look hashes everything."""
    model = build("qwen3_next")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :8], use_cache=True).cache
        cache.layers[3].values.data[0, 1, 2, 0] += 1
        model(IDS[:, 8:9], cache=cache)
    reading = read(tmp_path / "a.h5")
    site = "model.layers.3.self_attn:value"
    out, computed = (
        [reading.cells[site, moment, "r0", p] for p in range(8)]
        for moment in (Moment.OUT, Moment.COMPUTED)
    )
    assert [p for p in range(8) if out[p] != computed[p]] == [2]


def test_tokens_that_are_not_those_announced_are_named(tmp_path: Path) -> None:
    """What was forwarded is recorded, with a warning at the first odd position."""
    model = build("llama")
    announced = IDS[0, :8].tolist()
    announced[5] = 3 if announced[5] != 3 else 4
    with (
        torch.no_grad(),
        record(model, tmp_path / "a.h5") as recorder,
        recorder.request("a", announced),
    ):
        model(IDS[:, :8])
    reading = read(tmp_path / "a.h5")
    assert reading.values(EventKind.WARNING) == [5]


def test_requests_do_not_nest(tmp_path: Path) -> None:
    """A block inside a block is a mistake of the caller."""
    model = build("llama")
    with (
        record(model, tmp_path / "a.h5") as recorder,
        recorder.request("a"),
        pytest.raises(CaptureError, match="nest"),
        recorder.request("b"),
    ):
        pass


def test_inference_mode_is_recorded_alike(tmp_path: Path) -> None:
    """Tensors without version counters are carried by their storage."""
    model = build("qwen3_next")
    with torch.inference_mode(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :8], use_cache=True).cache
        model(IDS[:, 8:9], cache=cache)
    reading = read(tmp_path / "a.h5")
    assert reading.troubles == []
    assert reading.carried_positions("model.layers.3.self_attn:key", "r0") == list(range(8))
