"""Rows of padded batches land at the positions of their tokens, whatever the column."""

from pathlib import Path
from typing import Any

import pytest
import torch

from layerdiff.vocabulary import EventKind, Moment
from layerdiff_hooks import record
from layerdiff_hooks.positions import ColumnTable, rope_of, rows_of
from tests.families import build, tokens
from tests.layerdiff_hooks.reading import Reading, expected, read
from tests.layerdiff_hooks.truth import Truth, check_states, layer_names, watching

LENGTHS = (9, 5, 7)
WIDTH = max(LENGTHS)


def padded(side: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask [3, 9] of three prompts of several lengths."""
    ids, mask = torch.zeros(3, WIDTH, dtype=torch.long), torch.zeros(3, WIDTH, dtype=torch.long)
    for row, length in enumerate(LENGTHS):
        at = slice(WIDTH - length, None) if side == "left" else slice(length)
        ids[row, at] = tokens(1, length, seed=row)[0]
        mask[row, at] = 1
    return ids, mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_next", "falcon_h1"])
def test_pads_have_no_position(family: str, side: str, tmp_path: Path) -> None:
    """Prefill and a decode step of three prompts: layer rows at the positions of their tokens."""
    model = build(family)
    ids, mask = padded(side)
    step = torch.tensor([[3], [4], [5]])
    longer = torch.cat([mask, torch.ones(3, 1, dtype=torch.long)], 1)
    with (
        torch.no_grad(),
        watching(model) as truth,
        record(model, tmp_path / "a.h5") as recorder,
        recorder.request("a"),
    ):
        cache = model(ids, attention_mask=mask, use_cache=True).cache
        model(step, attention_mask=longer, cache=cache)
    reading = read(tmp_path / "a.h5")
    assert reading.troubles == []
    for row, length in enumerate(LENGTHS):
        name = f"a/{row}"
        first = WIDTH - length if side == "left" else 0
        check_columns(reading, truth, name, row, [(0, first, length), (length, 0, 1)])
        assert reading.positions("model.layers.1:out", Moment.COMPUTED, name) == list(
            range(length + 1)
        )
        check_states(reading, cache, name, Moment.OUT, length + 1, row=row)
        chain = reading.dump.chain(reading.requests[name].index)[1]
        assert chain[:length].tolist() == solo_chain(model, tmp_path, row, length)
    pads = reading.dump.pads
    total = pads["before"].sum(), pads["after"].sum()
    assert total == ((6, 0) if side == "left" else (0, 6))


def solo_chain(model: Any, folder: Path, row: int, length: int) -> list[int]:
    """The chain of one prompt recorded alone."""
    path = folder / f"solo{row}.h5"
    with torch.no_grad(), record(model, path) as recorder, recorder.request("solo"):
        model(tokens(1, length, seed=row))
    chain: list[int] = read(path).dump.chain(0)[1].tolist()
    return chain


def check_columns(
    reading: Reading, truth: Truth, name: str, row: int, chunks: list[tuple[int, int, int]]
) -> None:
    """Compares layer outputs; a chunk is (first position, first column, tokens)."""
    for layer, outputs in truth.outputs.items():
        for (position, column, count), output in zip(chunks, outputs, strict=True):
            for i in range(count):
                found = reading.cells[f"{layer}:out", Moment.COMPUTED, name, position + i]
                assert expected(output[row, column + i][None]) in found


def test_a_left_padded_generation_skips_pads_in_keys_and_logits(tmp_path: Path) -> None:
    """Rows of the cache that are pads are no rows of a request; the last logits are the last's."""
    model = build("llama")
    ids, mask = padded("left")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        model.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False)
    reading = read(tmp_path / "a.h5")
    assert reading.troubles == []
    for row, length in enumerate(LENGTHS):
        name, computed = f"r{row}", list(range(length + 2))
        key = "model.layers.2.self_attn:key"
        assert reading.positions(key, Moment.COMPUTED, name) == computed
        assert reading.positions(key, Moment.OUT, name) == computed
        logits = reading.positions("lm_head:out", Moment.COMPUTED, name)
        assert logits == list(range(length - 1, length + 2))
        given = reading.dump.chain(row)[2]
        assert given.tolist() == [True] * length + [False] * 2


def test_later_passes_without_a_mask_still_know_the_pads(tmp_path: Path) -> None:
    """The columns of a batch are remembered from its first pass."""
    model = build("llama")
    ids, mask = padded("left")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        cache = model(ids, attention_mask=mask, use_cache=True).cache
        model(torch.tensor([[3], [4], [5]]), cache=cache)
    reading = read(tmp_path / "a.h5")
    for row, length in enumerate(LENGTHS):
        site = "model.layers.0:out"
        assert reading.positions(site, Moment.COMPUTED, f"r{row}") == list(range(length + 1))


def test_rope_positions_are_kept_apart(tmp_path: Path) -> None:
    """A bare forward with left pads rotates by column; the dump says so and keeps positions."""
    model = build("llama")
    ids, mask = padded("left")
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        model(ids, attention_mask=mask)
    rope = read(tmp_path / "a.h5").dump.rope
    found = [tuple(map(int, r))[1:] for r in rope]
    assert found == [(1, 0, 5, 4, 1), (2, 0, 7, 2, 1)]


def test_a_batch_of_three_is_three_requests(tmp_path: Path) -> None:
    """Each row has its own name, tokens and cells."""
    model = build("qwen3_next")
    ids = tokens(3, 6)
    with (
        torch.no_grad(),
        watching(model) as truth,
        record(model, tmp_path / "a.h5") as recorder,
        recorder.request(["x", "y", "z"], ids),
    ):
        model(ids)
    reading = read(tmp_path / "a.h5")
    assert list(reading.requests) == ["x", "y", "z"]
    for row, name in enumerate("xyz"):
        check_columns(reading, truth, name, row, [(0, 0, 6)])


def test_reordered_batch_rows_are_a_gap(tmp_path: Path) -> None:
    """Beam search moves rows about: what follows is not recorded under a wrong request."""
    model = build("llama")
    torch.manual_seed(0)
    with torch.no_grad(), record(model, tmp_path / "a.h5"):
        model.generate(tokens(1, 6), num_beams=3, max_new_tokens=8, do_sample=True)
    reading = read(tmp_path / "a.h5")
    assert any("reordered" in text for text in reading.texts(EventKind.GAP))


def test_input_embeddings_stand_for_tokens(tmp_path: Path) -> None:
    """Without token ids, equal embeddings make equal chains."""
    model = build("llama")
    embeds = model.get_input_embeddings()(tokens(1, 6))
    with torch.no_grad(), record(model, tmp_path / "a.h5") as recorder:
        for name in ("a", "b"):
            with recorder.request(name):
                model(inputs_embeds=embeds)
    reading = read(tmp_path / "a.h5")
    chains = [reading.dump.chain(i)[1].tolist() for i in (0, 1)]
    assert chains[0] == chains[1]
    assert len(chains[0]) == 6
    assert reading.troubles == []


def test_columns_map_to_positions() -> None:
    """Pads anywhere in a row take no position."""
    table = ColumnTable(2)
    table.extend(torch.tensor([[0, 1, 1], [1, 0, 1]]).bool().numpy())
    table.extend(torch.tensor([[1], [1]]).bool().numpy())
    rows = rows_of(table, [7, 8], 1, 4)
    assert rows.spans == ((7, 0, 3), (8, 1, 3))
    picked = rows.pick(torch.arange(6).reshape(2, 3))
    assert picked.tolist() == [0, 1, 2, 4, 5]
    table.truncate(2)
    assert table.lengths.tolist() == [1, 1]
    assert table.columns_for(0, 1) == 2


def test_rope_runs_have_a_constant_step() -> None:
    """A jump in the rope positions begins a new run."""
    table = ColumnTable(1)
    table.extend(torch.ones(1, 5).bool().numpy())
    rows = rows_of(table, [0], 0, 5)
    given = torch.tensor([[3, 4, 9, 11, 13]])
    assert rope_of(given, rows, 5, 2) == [(2, 0, 0, 2, 3, 1), (2, 0, 2, 5, 9, 2)]


def test_layer_names_are_found() -> None:
    """The helper that watches layers sees all of them."""
    assert len(layer_names(build("mamba"))) == 3
