"""The prefix cache in a file: arrays in a zip archive, and a table of what belongs where."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from layerdiff_samples.engine.checkpoints import Checkpoint
from layerdiff_samples.engine.draft_rows import DraftRows
from layerdiff_samples.engine.prefix_cache import Entry
from layerdiff_samples.engine.writer import Writer

if TYPE_CHECKING:
    from layerdiff_samples.engine.engine import Engine

_TABLE = "table"
_DRAFTS = ("key", "value", "anchor")


def save(engine: "Engine", path: Path) -> None:
    """Writes all published blocks and their checkpoints."""
    tensors = {f"blocks/{name}": t for name, t in engine.blocks.export().items()}
    tensors |= {f"states/{name}": t for name, t in engine.states.export().items()}
    entries = {}
    for key, entry in engine.cache.entries.items():
        entries[key] = _describe(engine, entry)
        rows = entry.checkpoint.draft_rows if entry.checkpoint else None
        if rows is not None:
            tensors |= {f"drafts/{key}/{name}": getattr(rows, name) for name in _DRAFTS}
    table = {"architecture": engine.config.architecture(), "entries": entries}
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    arrays[_TABLE] = np.frombuffer(json.dumps(table).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def load(engine: "Engine", path: Path) -> None:
    """Fills a new engine.

    Raises:
        ValueError: The file is of an engine of other sizes.
    """
    with np.load(path, allow_pickle=False) as archive:
        table = json.loads(archive[_TABLE].tobytes())
        tensors = {n: torch.from_numpy(archive[n]) for n in archive.files if n != _TABLE}
    if table["architecture"] != engine.config.architecture():
        raise ValueError(f"{path} was saved by an engine of another architecture")
    engine.blocks.restore(_below(tensors, "blocks/"))
    engine.states.restore(_below(tensors, "states/"))
    for key, known in table["entries"].items():
        engine.blocks.claim(known["block"], known["generation"])
        checkpoint = _checkpoint(known["checkpoint"], _below(tensors, f"drafts/{key}/"))
        if checkpoint is not None:
            engine.states.claim(checkpoint.slot, checkpoint.generation)
        engine.cache.entries[key] = Entry(
            known["block"],
            Writer(*known["writer"]),
            known["content"],
            known["used"],
            known["depth"],
            checkpoint,
        )


def _describe(engine: "Engine", entry: Entry) -> dict[str, Any]:
    saved = entry.checkpoint
    return {
        "block": entry.block,
        "generation": engine.blocks.generation[entry.block],
        "writer": _pair(entry.writer),
        "content": entry.content,
        "used": entry.used,
        "depth": entry.depth,
        "checkpoint": saved
        and {
            "slot": saved.slot,
            "generation": saved.generation,
            "position": saved.position,
            "writer": _pair(saved.writer),
        },
    }


def _checkpoint(known: dict[str, Any] | None, rows: dict[str, Tensor]) -> Checkpoint | None:
    if known is None:
        return None
    position = known["position"]
    drafts = DraftRows(rows["key"], rows["value"], position, rows["anchor"]) if rows else None
    writer = Writer(*known["writer"])
    return Checkpoint(known["slot"], known["generation"], position, writer, drafts)


def _pair(writer: Writer) -> tuple[str, int]:
    return writer.request, writer.pass_index


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
