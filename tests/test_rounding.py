"""Rounding told from corruption on stock models: fp32, cold in one pass against fill and reuse."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from layerdiff.commands.diff import compare_files
from layerdiff.model import Origin, Report
from layerdiff.vocabulary import Level, SizeClass
from layerdiff_hooks import record
from layerdiff_samples.arms import forward
from tests.batteries.run_faults import FAMILIES
from tests.families import VOCABULARY, build

LENGTH, PREFIX = 41, 23
OPERATIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "zeroed": lambda entry: entry.zero_(),
    "scaled": lambda entry: entry.mul_(1.1),
    "shifted": lambda entry: entry.copy_(entry.roll(1, -1)),
}


class Subject:
    """A model of one family with a prompt."""

    def __init__(self, family: str, folder: Path) -> None:
        self.model: Any = build(family, dtype=torch.float32)
        self.folder = folder
        generator = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(3, VOCABULARY, (1, LENGTH), generator=generator)
        self.cold = folder / "cold.h5"
        with record(self.model, self.cold) as recorder, recorder.request("r1", self.tokens):
            forward(self.model, self.tokens, None)

    def filled(self) -> Any:
        """A cache with the prefix."""
        return forward(self.model, self.tokens[:, :PREFIX], None)

    def report(self, change: Callable[[Any], None] | None = None) -> Report:
        """Cold against warm, with *change* done to the copied cache."""
        path = self.folder / "warm.h5"
        with record(self.model, path, arm="warm", overwrite=True) as recorder:
            with recorder.request("fill", self.tokens[:, :PREFIX]):
                cache = self.filled()
            reused = copy.deepcopy(cache)
            if change is not None:
                change(reused)
            with recorder.request("r1", self.tokens):
                forward(self.model, self.tokens[:, PREFIX:], reused)
        return compare_files(str(self.cold), str(path)).report


@pytest.fixture(scope="module", params=FAMILIES)
def subject(request: Any, tmp_path_factory: Any) -> Any:
    """One model of each family."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield Subject(request.param, tmp_path_factory.mktemp(request.param))
    torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached row or state."""

    layer: int
    position: int
    attribute: str
    row: int | None

    def reach(self, cache: Any) -> torch.Tensor:
        """The entry's own memory in *cache*."""
        held = getattr(cache.layers[self.layer], self.attribute)
        entry: torch.Tensor = held[0] if self.row is None else held[:, :, self.row]
        return entry


def entries(cache: Any) -> dict[str, Entry]:
    """One entry of each cached tensor kind, in the last layer that has it."""
    found: dict[str, Entry] = {}
    for index, layer in enumerate(cache.layers):
        keys = getattr(layer, "keys", None)
        if keys is not None and keys.numel():
            row = keys.shape[2] // 2
            position = PREFIX - keys.shape[2] + row
            found["kv_key"] = Entry(index, position, "keys", row)
            found["kv_value"] = Entry(index, position, "values", row)
        for name in ("recurrent", "conv"):
            if (getattr(layer, f"{name}_states", None) or {}).get(0) is not None:
                found[f"{name}_state"] = Entry(index, PREFIX, f"{name}_states", None)
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_corrupted_entry_is_the_first_origin_and_a_jump(
    subject: Subject, operation: str
) -> None:
    """Among rounding everywhere, the entry that was set at reuse is named, with its cell."""
    for tensor, entry in entries(subject.filled()).items():

        def change(cache: Any, entry: Entry = entry) -> None:
            OPERATIONS[operation](entry.reach(cache))

        first = subject.report(change).origins[0]
        found = (first.tensor, first.layer_index, first.position, first.moment)
        assert found == (tensor, entry.layer, entry.position, "in")
        assert first.level is Level.JUMP
        assert first.severity.size is SizeClass.JUMP


def test_without_a_fault_only_stock_operations_that_really_jump_are_called_so(
    subject: Subject,
) -> None:
    """The class is rounding; a jump is claimed only where raw tensors are far apart."""
    for origin in subject.report().origins:
        if origin.severity.size is SizeClass.JUMP:
            assert raw_difference(subject, origin) > 1e-3
        else:
            assert raw_difference(subject, origin) < 1e-4


def raw_difference(subject: Subject, origin: Origin) -> float:
    """Relative difference of the origin's row between cold and warm, from the tensors."""
    name, port = origin.site.rsplit(":", 1)
    rows = [
        tensor_rows(subject, name, port, chunks)
        for chunks in ([(0, LENGTH)], [(0, PREFIX), (PREFIX, LENGTH)])
    ]
    a, b = (row[origin.position] for row in rows)
    return float((a - b).norm() / a.norm())


def tensor_rows(
    subject: Subject, name: str, port: str, chunks: list[tuple[int, int]]
) -> torch.Tensor:
    """Rows by position of a module's output, or of the keys or values it hands to the cache."""
    module = subject.model.get_submodule(name)
    found: list[torch.Tensor] = []

    def keep(_module: Any, _args: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        found.append(hidden[0].reshape(hidden.shape[1], -1).clone())

    handle = module.register_forward_hook(keep) if port == "out" else None
    cache: Any = None
    for start, stop in chunks:
        cache = forward(subject.model, subject.tokens[:, start:stop], cache)
    if handle is not None:
        handle.remove()
        return torch.cat(found)
    rows: torch.Tensor = getattr(cache.layers[module.layer_idx], f"{port}s")[0]
    return rows.transpose(0, 1).reshape(rows.shape[1], -1).clone()
