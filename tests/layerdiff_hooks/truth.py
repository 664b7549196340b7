"""Raw tensors of a run, kept by plain hooks that know nothing of the recorder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from layerdiff.vocabulary import Moment
from tests.layerdiff_hooks.reading import Reading, expected


@dataclass(slots=True)
class Truth:
    """Layer outputs of every forward, in order."""

    outputs: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    """By layer name: [batch, width, size] a forward."""


def layer_names(model: Any) -> dict[str, nn.Module]:
    """The decoder layers of a model of transformers, by path."""
    stack = getattr(model, "model", None) or model.backbone
    prefix = "model" if hasattr(model, "model") else "backbone"
    return {f"{prefix}.layers.{i}": layer for i, layer in enumerate(stack.layers)}


@contextmanager
def watching(model: Any) -> Iterator[Truth]:
    """Keep what every layer returns."""
    truth = Truth()
    handles = []
    for name, layer in layer_names(model).items():
        kept = truth.outputs.setdefault(name, [])

        def keep(_m: Any, _a: Any, output: Any, kept: list[torch.Tensor] = kept) -> None:
            kept.append((output[0] if isinstance(output, tuple) else output).detach().clone())

        handles.append(layer.register_forward_hook(keep))
    try:
        yield truth
    finally:
        for handle in handles:
            handle.remove()


def state_parts(kind: str, state: torch.Tensor) -> torch.Tensor:
    """One batch row's state as its parts: heads, or columns in time."""
    if kind == "conv":
        return state.transpose(0, 1)
    return state if state.ndim == 3 else state[None]


def check_layers(
    reading: Reading, truth: Truth, request: str, row: int, chunks: list[tuple[int, int]]
) -> int:
    """Compares layer outputs with the dump at the same positions; the number of cells compared."""
    compared = 0
    for name, outputs in truth.outputs.items():
        for (start, stop), output in zip(chunks, outputs, strict=True):
            for position in range(start, stop):
                column = position - stop  # from the right: rows may be padded on the left
                found = reading.cells[f"{name}:out", Moment.COMPUTED, request, position]
                assert expected(output[row, column][None]) in found, (name, position)
                compared += 1
    return compared


def check_rows(
    reading: Reading, cache: Any, request: str, moment: Moment, *, row: int = 0, pads: int = 0
) -> int:
    """Compares a cache's keys and values with the dump; the number of rows compared.

    Args:
        row: Which row of the batch.
        pads: Columns on its left that are pads.
    """
    compared = 0
    for index, layer in enumerate(cache.layers):
        for port in ("key", "value"):
            rows = getattr(layer, f"{port}s", None)
            if rows is None or rows.ndim < 4:
                continue
            length = int(layer.get_seq_length())
            slots = min(rows.shape[2], length)
            site = site_of(reading, index, port)
            for slot in range(slots):
                position = length - slots + slot - pads
                if position < 0:
                    continue
                found = reading.cells[site, moment, request, position]
                assert expected(rows[row, :, slot][None]) in found, (site, position)
                compared += 1
    return compared


def check_states(
    reading: Reading, cache: Any, request: str, moment: Moment, position: int, *, row: int = 0
) -> int:
    """Compares a cache's states with the dump; the number of states compared."""
    compared = 0
    for index, layer in enumerate(cache.layers):
        for port in ("recurrent", "conv"):
            for state in (getattr(layer, f"{port}_states", None) or {}).values():
                if state is not None:
                    site = site_of(reading, index, port)
                    found = reading.cells[site, moment, request, position]
                    assert expected(state_parts(port, state[row])) in found, site
                    compared += 1
    return compared


def site_of(reading: Reading, layer: int, port: str) -> str:
    """The site of a cached tensor in a decoder layer."""
    return next(
        site.name
        for site in reading.dump.sites
        if site.layer_index == layer and site.name.endswith(f":{port}")
    )
