"""The engine is sacred: nothing is left behind, and a fault of ours stops only the recording."""

import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from layerdiff.errors import CaptureError
from layerdiff.format import schema
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import EventKind, Moment
from layerdiff_hooks import record
from layerdiff_hooks import session as session_module
from tests.families import build, tokens
from tests.layerdiff_hooks.reading import read

IDS = tokens(1, 10)


def traces(model: nn.Module) -> list[object]:
    """Everything on a model that a recorder could leave behind."""
    found: list[object] = [sorted(vars(model))]
    for module in model.modules():
        found += [
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
            len(module._forward_hooks_with_kwargs),
            len(module._forward_hooks_always_called),
            type(module),
        ]
    return found


def test_nothing_is_left_on_the_model_or_the_cache(tmp_path: Path) -> None:
    """Hooks, attributes and classes are as before."""
    model = build("qwen3_next")
    before = traces(model)
    with torch.no_grad():
        plain = sorted(vars(model(IDS, use_cache=True).cache))
        with record(model, tmp_path / "a.h5"):
            cache = model(IDS, use_cache=True).cache
            during = sorted(vars(cache))
    assert traces(model) == before
    assert during == plain


def test_an_error_inside_the_model_ends_the_pass(tmp_path: Path) -> None:
    """The error reaches the caller, the pass is marked, the cache is let go."""
    model = build("llama")

    def fail(_module: nn.Module, _args: object) -> None:
        raise ValueError("planted")

    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(IDS[:, :4], use_cache=True).cache
        attributes = sorted(vars(cache))
        handle = model.model.layers[1].mlp.register_forward_pre_hook(fail)
        with pytest.raises(ValueError, match="planted"):
            model(IDS[:, 4:8], cache=cache)
        handle.remove()
        assert sorted(vars(cache)) == attributes
        model(IDS)
    reading = read(tmp_path / "a.h5")
    flags = reading.dump.passes["flags"][reading.dump.model_passes]
    assert flags.tolist() == [0, schema.PASS_FAILED, 0]
    assert reading.dump.complete
    assert list(reading.requests) == ["r0", "r1"]


def test_an_interrupt_ends_the_pass_at_the_next_forward(tmp_path: Path) -> None:
    """Torch calls no hook for an interrupt; the pass is closed when the model runs again."""
    model = build("llama")

    def interrupt(_module: nn.Module, _args: object) -> None:
        raise KeyboardInterrupt

    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        handle = model.model.layers[1].register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(IDS)
        handle.remove()
        model(IDS)
    reading = read(tmp_path / "a.h5")
    flags = reading.dump.passes["flags"][reading.dump.model_passes]
    assert flags.tolist() == [schema.PASS_FAILED, 0]
    assert len(reading.positions("lm_head:out", Moment.COMPUTED, "r1")) == 10


def test_a_fault_of_ours_leaves_the_model_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning, the same logits, and a dump that says it is incomplete."""
    model = build("llama")
    with torch.no_grad():
        expected = model(IDS).logits
        with record(model, tmp_path / "a.h5") as recorder:
            model(IDS)
            monkeypatch.setattr(session_module.Session, "digest", _broken)
            with pytest.warns(RuntimeWarning, match="dump is incomplete") as caught:
                found = model(IDS, use_cache=True)
            assert len([w for w in caught if w.category is RuntimeWarning]) == 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert torch.equal(model(IDS).logits, expected)
            assert recorder.incomplete
    assert torch.equal(found.logits, expected)
    assert "update" not in vars(found.cache)
    reading = read(tmp_path / "a.h5")
    assert reading.texts(EventKind.FAULT) == ["ZeroDivisionError: planted"]
    assert not reading.dump.complete
    assert len(reading.positions("lm_head:out", Moment.COMPUTED, "r0")) == 10


def test_a_full_disk_leaves_the_model_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that can no longer be written ends the recording, not the run."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        expected = model(IDS).logits
        monkeypatch.setattr(DumpWriter, "commit", _broken)
        with pytest.warns(RuntimeWarning, match="incomplete"):
            assert torch.equal(model(IDS).logits, expected)
        assert torch.equal(model(IDS).logits, expected)
        monkeypatch.undo()


def _broken(*_args: Any, **_kwargs: Any) -> Any:
    raise ZeroDivisionError("planted")


def test_random_state_and_gradients_are_untouched(tmp_path: Path) -> None:
    """A training step gives the same gradients, and no random number is drawn."""
    gradients = []
    for path in (None, tmp_path / "a.h5"):
        model = build("llama").train()
        torch.manual_seed(1)
        if path is None:
            model(IDS, labels=IDS).loss.backward()
        else:
            with record(model, path):
                model(IDS, labels=IDS).loss.backward()
        drawn = torch.rand(1)
        gradients.append([*(p.grad for p in model.parameters()), drawn])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_autocast_does_not_reach_what_is_recorded(tmp_path: Path) -> None:
    """Under autocast the tensors are recorded as the model made them."""
    model = build("llama")
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = model(IDS).logits
        with record(model, tmp_path / "a.h5"):
            assert torch.equal(model(IDS).logits, expected)
    assert read(tmp_path / "a.h5").troubles == []


def test_a_compiled_model_is_refused(tmp_path: Path) -> None:
    """Compiled code runs no hooks."""
    compiled: Any = torch.compile(build("llama"), backend="eager")
    with (
        pytest.raises(CaptureError, match="compiled"),
        record(compiled, tmp_path / "a.h5"),
    ):
        pass
    assert not (tmp_path / "a.h5").exists()


def test_a_second_thread_is_a_gap(tmp_path: Path) -> None:
    """A forward from another thread during a pass is not recorded, and the dump says so."""
    model = build("llama")

    def other(_module: nn.Module, _args: object) -> None:
        handle.remove()
        thread = threading.Thread(target=lambda: model(IDS[:, :3]))
        thread.start()
        thread.join()

    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        handle = model.model.layers[1].register_forward_pre_hook(other)
        model(IDS)
    reading = read(tmp_path / "a.h5")
    assert len(reading.texts(EventKind.GAP)) >= 1
    assert reading.positions("model.layers.2:out", Moment.COMPUTED, "r0") == list(range(10))
    assert all(len(found) == 1 for found in reading.cells.values())


def test_a_paused_recorder_records_nothing(tmp_path: Path) -> None:
    """What went by unseen is told as a gap when recording goes on."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder:
        cache = model(IDS[:, :4], use_cache=True).cache
        recorder.pause()
        model(IDS[:, 4:7], cache=cache)
        recorder.resume()
        model(IDS[:, 7:8], cache=cache)
    reading = read(tmp_path / "a.h5")
    assert reading.positions("model.layers.0:out", Moment.COMPUTED, "r0") == [0, 1, 2, 3, 7]
    assert any("3 columns" in text for text in reading.texts(EventKind.GAP))


def test_plain_stacks_are_recorded(tmp_path: Path) -> None:
    """Modules that are no model of transformers: an embedding, blocks, a head; or blocks alone."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(16, 8)
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in "abc")
            self.head = nn.Linear(8, 16)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            hidden = self.embed(ids)
            for block in self.blocks:
                hidden = block(hidden)
            output: torch.Tensor = self.head(hidden)
            return output

    with record(Plain(), tmp_path / "a.h5"):
        pass
    model = Plain()
    with record(model, tmp_path / "b.h5"):
        model(torch.arange(5)[None])
    reading = read(tmp_path / "b.h5")
    names = [site.name for site in reading.dump.sites]
    assert names[:2] == ["embed:out", "blocks.0:in"]
    assert names[-1] == "head:out"
    assert reading.troubles == []
    stack = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    with record(stack, tmp_path / "c.h5"):
        stack(torch.randn(7, 8))
    reading = read(tmp_path / "c.h5")
    assert reading.positions("1:out", Moment.COMPUTED, "r0") == list(range(7))


def test_a_module_without_layers_is_refused(tmp_path: Path) -> None:
    """The message says what is missing."""
    with (
        pytest.raises(CaptureError, match="no list of layers"),
        record(nn.Linear(2, 2), tmp_path / "a.h5"),
    ):
        pass


def test_a_selection_narrows_and_keeps_the_graph(tmp_path: Path) -> None:
    """Sites that are left out hand their inputs on."""
    model = build("llama")
    with torch.no_grad(), record(model, tmp_path / "a.h5", select="model.layers.*:out"):
        model(IDS)
    sites = {s.name: s for s in read(tmp_path / "a.h5").dump.sites}
    assert "model.layers.0.mlp:out" in sites
    with (
        torch.no_grad(),
        record(
            model,
            tmp_path / "b.h5",
            select=["model.layers.?:out", "model.layers.1.input_layernorm:out"],
        ),
    ):
        model(IDS)
    dump = read(tmp_path / "b.h5").dump
    names = [s.name for s in dump.sites]
    assert names == [
        "model.layers.0:out",
        "model.layers.1.input_layernorm:out",
        "model.layers.1:out",
        "model.layers.2:out",
    ]
    assert [dump.sites[i].name for i in dump.sites[2].inputs] == ["model.layers.0:out"]
    with (
        pytest.raises(CaptureError, match=r"close are.*layers\.0:out"),
        record(model, tmp_path / "c.h5", select="model.layer.0:out"),
    ):
        pass


def test_a_key_changes_every_digest(tmp_path: Path) -> None:
    """The same run with and without a key has no digest in common; the same key gives the same."""
    (tmp_path / "key").write_bytes(b"k" * 32)
    model = build("qwen3_next")
    found = []
    for number, key in enumerate((None, tmp_path / "key", tmp_path / "key")):
        with torch.no_grad(), record(model, tmp_path / f"{number}.h5", key=key):
            cache = model(IDS[:, :6], use_cache=True).cache
            model(IDS[:, 6:], cache=cache)
        reading = read(tmp_path / f"{number}.h5")
        found.append(({c for v in reading.cells.values() for d in v for c in d}, reading))
    assert not found[0][0] & found[1][0]
    assert found[1][1].cells == found[2][1].cells
    assert not set(found[0][1].dump.chain(0)[1]) & set(found[1][1].dump.chain(0)[1])
