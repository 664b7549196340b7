"""Each cause that recorded facts alone decide, on a real model, and a look-alike of each."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from layerdiff.commands.diff import compare_files
from layerdiff.model import Report
from layerdiff.vocabulary import Cause, Confidence, Verdict
from layerdiff_hooks import record
from layerdiff_samples.arms import forward
from tests.families import VOCABULARY, build

LENGTH, PREFIX, HALF = 41, 23, 10
Change = Callable[["Caches"], None]


@dataclass(frozen=True)
class Caches:
    """What a fault can work with."""

    reused: Any
    """The copy that the request is about to take over."""
    other: Any
    """The cache of a request with other tokens, of the same length."""
    half: Any
    """The same prefix, ten tokens in."""

    def states(self, cache: Any) -> list[torch.Tensor]:
        """The recurrent states of all layers that have one."""
        layers = [layer for layer in cache.layers if hasattr(layer, "recurrent_states")]
        return [layer.recurrent_states[0] for layer in layers]

    def attention(self, cache: Any) -> list[Any]:
        """The cache layers that hold keys and values."""
        return [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]


class Engine:
    """A model that serves another prompt, then a prefix, then the prompt on its cache."""

    def __init__(self, family: str, folder: Path) -> None:
        self.model: Any = build(family, dtype=torch.float32)
        self.folder = folder
        generator = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(3, VOCABULARY, (1, LENGTH), generator=generator)
        self.other = torch.randint(3, VOCABULARY, (1, PREFIX), generator=generator)
        self.cold = folder / "cold.h5"
        with record(self.model, self.cold) as recorder, recorder.request("r1", self.tokens):
            forward(self.model, self.tokens, None)

    def report(self, change: Change | None = None) -> Report:
        """Cold against warm with *change* done before the reuse."""
        path = self.folder / "warm.h5"
        with record(self.model, path, arm="warm", overwrite=True) as recorder:
            with recorder.request("other", self.other):
                other = forward(self.model, self.other, None)
            with recorder.request("fill", self.tokens[:, :PREFIX]):
                cache = forward(self.model, self.tokens[:, :HALF], None)
                half = copy.deepcopy(cache)
                cache = forward(self.model, self.tokens[:, HALF:PREFIX], cache)
            reused = copy.deepcopy(cache)
            if change is not None:
                change(Caches(reused, other, half))
            with recorder.request("r1", self.tokens):
                forward(self.model, self.tokens[:, PREFIX:], reused)
        return compare_files(str(self.cold), str(path)).report


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: Any) -> Any:
    """Linear and full attention."""
    with torch.no_grad():
        yield Engine("qwen3_next", tmp_path_factory.mktemp("hybrid"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: Any) -> Any:
    """Full attention alone."""
    with torch.no_grad():
        yield Engine("llama", tmp_path_factory.mktemp("plain"))


def zeroed(caches: Caches) -> None:
    """No state was restored: the slot holds zeros."""
    for state in caches.states(caches.reused):
        state.zero_()


def negative_zero(caches: Caches) -> None:
    """Cleared by a multiplication: zero, if not by bits."""
    for state in caches.states(caches.reused):
        state.zero_().neg_()


def nearly_zero(caches: Caches) -> None:
    """A look-alike of a slot that nothing wrote."""
    for state in caches.states(caches.reused):
        state.fill_(1e-30)


def earlier(caches: Caches) -> None:
    """The state of the same prefix, thirteen tokens before."""
    for state, half in zip(caches.states(caches.reused), caches.states(caches.half), strict=True):
        state.copy_(half)


def foreign_state(caches: Caches) -> None:
    """The state of a request with other tokens."""
    for state, other in zip(
        caches.states(caches.reused), caches.states(caches.other), strict=True
    ):
        state.copy_(other)


def foreign_rows(caches: Caches) -> None:
    """The keys and values of a request with other tokens."""
    for layer, other in zip(
        caches.attention(caches.reused), caches.attention(caches.other), strict=True
    ):
        layer.keys, layer.values = other.keys.clone(), other.values.clone()


def corrupted_state(caches: Caches) -> None:
    """A write that belongs to nobody."""
    for state in caches.states(caches.reused):
        state[0, 0] *= 1.1


def corrupted_row(caches: Caches) -> None:
    """One key that belongs to nobody."""
    caches.attention(caches.reused)[0].keys[0, 0, 5] *= 1.1


def rearranged(caches: Caches, rows: list[int], layers: int | None = None) -> None:
    """The cache holds the rows of these positions, in this order."""
    for layer in caches.attention(caches.reused)[:layers]:
        layer.keys, layer.values = layer.keys[:, :, rows], layer.values[:, :, rows]


ALL = list(range(PREFIX))
DROPPED = ALL[:7] + ALL[8:]
DOUBLED = [*ALL[:8], *ALL[7:]]
SWAPPED = [*ALL[:5], 9, *ALL[6:9], 5, *ALL[10:]]


@pytest.mark.parametrize(
    ("change", "cause", "tensor", "position"),
    [
        (zeroed, Cause.STATE_ZERO, "recurrent_state", PREFIX),
        (negative_zero, Cause.STATE_ZERO, "recurrent_state", PREFIX),
        (nearly_zero, Cause.STATE_CORRUPTED, "recurrent_state", PREFIX),
        (earlier, Cause.STATE_WRONG_POSITION, "recurrent_state", PREFIX),
        (foreign_state, Cause.STATE_FOREIGN, "recurrent_state", PREFIX),
        (foreign_rows, Cause.STATE_FOREIGN, "kv_key", 0),
        (corrupted_state, Cause.STATE_CORRUPTED, "recurrent_state", PREFIX),
        (corrupted_row, Cause.STATE_CORRUPTED, "kv_key", 5),
        (lambda c: rearranged(c, DROPPED), Cause.KV_LENGTH, "kv_key", 7),
        (lambda c: rearranged(c, DOUBLED), Cause.KV_LENGTH, "kv_key", 8),
        (lambda c: rearranged(c, [*DROPPED, 22], 1), Cause.KV_LENGTH, "kv_key", 7),
        (lambda c: rearranged(c, SWAPPED), Cause.KV_ORDER, "kv_key", 5),
        (lambda c: rearranged(c, [*ALL[1:], 0]), Cause.KV_ORDER, "kv_key", 0),
        (lambda c: rearranged(c, [*DROPPED, 7]), Cause.KV_ORDER, "kv_key", 7),
    ],
)
def test_the_cause_is_named(
    hybrid: Engine, change: Change, cause: Cause, tensor: str, position: int
) -> None:
    """Cause, tensor and position of a planted fault; each row is a look-alike of the others."""
    first = hybrid.report(change).origins[0]
    assert (first.cause, first.tensor, first.position) == (cause, tensor, position)
    assert first.confidence is Confidence.CONSISTENT
    assert cause not in {ruled.cause for ruled in first.ruled_out}


@pytest.mark.parametrize(
    ("rows", "cause"),
    [(DROPPED, Cause.KV_LENGTH), (DOUBLED, Cause.KV_LENGTH), (SWAPPED, Cause.KV_ORDER)],
)
def test_rows_are_accounted_for_without_a_state(
    plain: Engine, rows: list[int], cause: Cause
) -> None:
    """A model of attention alone: which rows the cache holds decides."""
    first = plain.report(lambda caches: rearranged(caches, rows)).origins[0]
    assert first.cause is cause


def test_a_healthy_cache_has_no_cause(hybrid: Engine, plain: Engine) -> None:
    """Without a fault nothing is blamed on the cache, though other requests were served."""
    for engine in (hybrid, plain):
        for origin in engine.report().origins:
            assert origin.cause is Cause.UNKNOWN
            assert origin.moment is None or origin.moment == "computed"


def test_a_whole_prompt_hit_that_runs_its_last_token_again(plain: Engine) -> None:
    """All tokens were in the cache and the last one ran on top of it: kv-length."""
    path = plain.folder / "whole.h5"
    with record(plain.model, path, arm="warm", overwrite=True) as recorder:
        with recorder.request("fill", plain.tokens):
            cache = forward(plain.model, plain.tokens, None)
        with recorder.request("r1", plain.tokens):
            forward(plain.model, plain.tokens[:, -1:], copy.deepcopy(cache))
    report = compare_files(str(plain.cold), str(path)).report
    assert report.verdict is Verdict.DIVERGED
    assert (report.origins[0].cause, report.origins[0].position) == (Cause.KV_LENGTH, LENGTH)


def test_a_whole_prompt_hit_that_goes_on_is_no_length_fault(plain: Engine, tmp_path: Path) -> None:
    """The look-alike: all tokens were in the cache, and the next one, sampled, runs on it."""
    token = plain.model(plain.tokens).logits[:, -1:].argmax(-1)
    paths = [tmp_path / "cold.h5", tmp_path / "warm.h5"]
    with record(plain.model, paths[0]) as recorder, recorder.request("r1", plain.tokens):
        forward(plain.model, token, forward(plain.model, plain.tokens, None))
    with record(plain.model, paths[1], arm="warm") as recorder:
        with recorder.request("fill", plain.tokens):
            cache = forward(plain.model, plain.tokens, None)
        with recorder.request("r1", plain.tokens):
            forward(plain.model, token, copy.deepcopy(cache))
    report = compare_files(str(paths[0]), str(paths[1])).report
    assert Cause.KV_LENGTH not in {origin.cause for origin in report.origins}


def test_a_hit_short_of_the_last_token_is_no_length_fault(plain: Engine) -> None:
    """The look-alike: everything but the last token was in the cache, as it should be."""
    path = plain.folder / "short.h5"
    with record(plain.model, path, arm="warm", overwrite=True) as recorder:
        with recorder.request("fill", plain.tokens[:, :-1]):
            cache = forward(plain.model, plain.tokens[:, :-1], None)
        with recorder.request("r1", plain.tokens):
            forward(plain.model, plain.tokens[:, -1:], copy.deepcopy(cache))
    report = compare_files(str(plain.cold), str(path)).report
    assert all(origin.cause is Cause.UNKNOWN for origin in report.origins)
    assert report.coverage.hit_tokens["r1"] == LENGTH - 1


def test_one_changed_weight_is_a_mismatch(plain: Engine, tmp_path: Path) -> None:
    """The fingerprint covers every weight."""
    path = tmp_path / "other.h5"
    model = copy.deepcopy(plain.model)
    model.model.layers[2].mlp.down_proj.weight[3, 5] *= 1.5
    with record(model, path, arm="cold") as recorder, recorder.request("r1", plain.tokens):
        forward(model, plain.tokens, None)
    report = compare_files(str(plain.cold), str(path)).report
    assert report.origins[0].cause is Cause.WEIGHTS_MISMATCH
    assert report.origins[1].layer_index == 2


def test_other_embeddings_under_the_same_tokens_are_a_mismatch(
    plain: Engine, tmp_path: Path
) -> None:
    """Two images behind one placeholder token: the embeddings differ though the tokens agree."""
    paths = []
    for name, scale in (("a", 1.0), ("b", 2.0)):
        embeddings = plain.model.get_input_embeddings()(plain.tokens).clone()
        embeddings[0, 7] *= scale
        paths.append(tmp_path / f"{name}.h5")
        with record(plain.model, paths[-1]) as recorder, recorder.request("r1", plain.tokens):
            plain.model(inputs_embeds=embeddings, use_cache=True)
    report = compare_files(str(paths[0]), str(paths[1])).report
    first = report.origins[0]
    assert (first.cause, first.position) == (Cause.REQUEST_MISMATCH, 7)
