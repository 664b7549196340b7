"""Single faults planted in a warm run of a stock model, and the cell where each must be found.

The baseline is the same run without the fault: same chunks, same reuse. What is planted is found
by raw tensors (which element was changed), never by layerdiff.
"""

import contextlib
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from layerdiff.commands.diff import compare_files
from layerdiff.model import Origin, Report
from layerdiff_hooks import record
from layerdiff_samples.arms import forward
from tests.families import VOCABULARY, build

LENGTH = 41


@dataclass(frozen=True, slots=True)
class Expected:
    """The cell that the report must name first."""

    layer_index: int | None
    position: int
    tensor: str
    site: str | None
    """Full name, where the fault determines it."""


class Subject:
    """One model with a prompt, a prefix to reuse, and its unfaulted warm dump."""

    def __init__(self, family: str, folder: Path, seed: int, dtype: torch.dtype) -> None:
        self.family, self.folder, self.dtype = family, folder, dtype
        self.model: nn.Module = build(family, dtype=dtype)
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(3, VOCABULARY, (1, LENGTH), generator=generator)
        self.prefix = int(torch.randint(9, LENGTH - 2, (1,), generator=generator))
        self.runs = 0
        self.healthy = self.warm()

    def warm(self, fault: "Fault | None" = None, other: "Fault | None" = None) -> Path:
        """Records fill and reuse, with up to two faults."""
        self.runs += 1
        dtype = str(self.dtype).removeprefix("torch.")
        path = self.folder / f"{self.family}-{dtype}-{self.runs}.h5"
        faults = [f for f in (fault, other) if f is not None]
        with torch.no_grad(), contextlib.ExitStack() as stack:
            for f in faults:
                stack.enter_context(f.before_recording(self))
            recorder = stack.enter_context(record(self.model, path, arm="warm"))
            for f in faults:
                stack.enter_context(f.while_recording(self))
            with recorder.request("fill", self.tokens[:, : self.prefix]):
                cache = forward(self.model, self.tokens[:, : self.prefix], None)
            reused = copy.deepcopy(cache)
            for f in faults:
                f.between(reused)
            with recorder.request("r1", self.tokens):
                forward(self.model, self.tokens[:, self.prefix :], reused)
        return path

    def report(self, path: Path) -> Report:
        """The report of the healthy run against *path*."""
        return compare_files(str(self.healthy), str(path)).report

    def layers(self) -> list[nn.Module]:
        """The decoder layers."""
        lists = [m for m in self.model.modules() if isinstance(m, nn.ModuleList)]
        sizes = [sum(parameter.numel() for parameter in m.parameters()) for m in lists]
        return list(lists[sizes.index(max(sizes))])


class Fault:
    """Something planted in one run."""

    expected: Expected

    @contextlib.contextmanager
    def before_recording(self, subject: Subject) -> Iterator[None]:
        """Plants what must run before the recorder's hooks."""
        yield

    @contextlib.contextmanager
    def while_recording(self, subject: Subject) -> Iterator[None]:
        """Plants what must run after the recorder's hooks."""
        yield

    def between(self, cache: Any) -> None:
        """Changes the copied cache before it is reused."""


@dataclass
class CacheBit(Fault):
    """One bit of one K, V, recurrent or conv value, flipped between fill and reuse."""

    layer_index: int
    tensor: str
    state_index: int
    element: float
    """Which element, as a fraction of all."""
    bit: float
    prefix: int
    row: int | None = None

    def between(self, cache: Any) -> None:
        target = _cached(cache.layers[self.layer_index], self.tensor, self.state_index)
        assert target is not None
        index = int(self.element * target.numel())
        cell = target[tuple(int(i) for i in np.unravel_index(index, tuple(target.shape)))]
        width = cell.element_size() * 8
        bit = int(self.bit * width)
        bits = cell.view({32: torch.int32, 16: torch.int16}[width])
        bits ^= -(1 << bit) if bit == width - 1 else 1 << bit
        position = self.prefix
        if self.tensor in ("kv_key", "kv_value"):
            rows, dim = target.shape[2], target.shape[3]
            position = self.prefix - rows + index // dim % rows
        self.expected = Expected(self.layer_index, position, self.tensor, None)


@dataclass
class HiddenRow(Fault):
    """One row of a layer's output changed inside a pass."""

    layer_index: int
    position: int
    after: bool
    """Whether by a hook that runs after the recorder's."""
    scale: float

    @contextlib.contextmanager
    def before_recording(self, subject: Subject) -> Iterator[None]:
        if self.after:
            yield
        else:
            with self._hook(subject):
                yield

    @contextlib.contextmanager
    def while_recording(self, subject: Subject) -> Iterator[None]:
        if self.after:
            with self._hook(subject):
                yield
        else:
            yield

    @contextlib.contextmanager
    def _hook(self, subject: Subject) -> Iterator[None]:
        layers = subject.layers()
        last = self.layer_index == len(layers) - 1
        if not self.after:
            self.expected = Expected(self.layer_index, self.position, "hidden", None)
        elif last:
            self.expected = Expected(None, self.position, "hidden", None)
        else:
            self.expected = Expected(self.layer_index + 1, self.position, "hidden", None)
        in_fill = self.position < subject.prefix
        row = self.position if in_fill else self.position - subject.prefix
        width = subject.prefix if in_fill else LENGTH - subject.prefix

        def change(module: nn.Module, args: Any, output: Any) -> Any:
            hidden = output[0] if isinstance(output, tuple) else output
            if hidden.shape[1] != width:
                return None
            changed = hidden.clone()
            changed[0, row] *= self.scale
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        handle = layers[self.layer_index].register_forward_hook(change)
        try:
            yield
        finally:
            handle.remove()


def _cached(layer: Any, tensor: str, index: int) -> torch.Tensor | None:
    if tensor in ("kv_key", "kv_value"):
        found = getattr(layer, "keys" if tensor == "kv_key" else "values", None)
        return found if found is not None and found.numel() else None
    states = getattr(layer, f"{tensor.removesuffix('_state')}_states", None) or {}
    found = states.get(index)
    return found if isinstance(found, torch.Tensor) else None


def random_fault(subject: Subject, rng: random.Random) -> Fault:
    """Any fault that the subject can have."""
    layers = len(subject.layers())
    if rng.random() < 0.4:
        position = rng.randrange(LENGTH)
        return HiddenRow(
            rng.randrange(layers), position, rng.random() < 0.5, rng.choice([1.01, -1.0, 1.5])
        )
    cache = _filled(subject)
    places = [
        (index, tensor, state)
        for index, layer in enumerate(cache.layers)
        for tensor in ("kv_key", "kv_value", "recurrent_state", "conv_state")
        for state in range(1 if tensor.startswith("kv") else 2)
        if _cached(layer, tensor, state) is not None
    ]
    index, tensor, state = rng.choice(places)
    return CacheBit(index, tensor, state, rng.random(), rng.random(), subject.prefix)


def _filled(subject: Subject) -> Any:
    with torch.no_grad():
        return forward(subject.model, subject.tokens[:, : subject.prefix], None)


def is_expected(origin: Origin, expected: Expected) -> bool:
    """Whether an origin names the planted cell."""
    return (origin.layer_index, origin.position, origin.tensor) == (
        expected.layer_index,
        expected.position,
        expected.tensor,
    )
