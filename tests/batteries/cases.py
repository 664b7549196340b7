"""Random situations of the sample engine, each with or without a fault in it."""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from layerdiff.vocabulary import Cause
from layerdiff_hooks.hunt.arm import ORDER, Arm
from layerdiff_samples import faults as fault_modules
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.families import ATTENTION_ALONE
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults.fault import Fault, registry
from layerdiff_samples.faults.keys import COVERED
from layerdiff_samples.faults.numerics import LONG
from tests.batteries.watching import Watching


@dataclass(frozen=True, slots=True)
class Look:
    """What a situation must be like for a fault to show; the rest is drawn."""

    layers: str = ""
    """Letters of which at least one layer each must be there."""
    first: str = ""
    """The letter of the first layer."""
    only: str = "gas"
    """Letters that there may be."""
    drafts: bool | None = None
    suffix: tuple[int, int] = (2, 20)
    """How many tokens a hit leaves: at least and at most."""
    hit: tuple[int, int] = (16, 48)
    new: tuple[int, int] = (2, 5)
    """How many tokens the compared request generates."""
    one_pass: bool = False
    """Whether a cold prompt is one pass, and what fills the cache ends at the hit."""
    config: Mapping[str, Any] | None = None
    """Sizes that are not drawn."""
    fills: str = "same"
    """Who runs first: the same text; another text after it, that leaves no room for it; one with
    the same block ends; a shorter turn after it; a shorter and a longer one; a longer one."""
    mates: str = ""
    """Who shares the batch: nobody, or requests that decode, fill or free."""
    again: bool = False
    """Whether the compared prompt is the very one that filled the cache, in whole blocks."""
    arms: tuple[str, ...] = ORDER
    baseline: str = "cold"
    stateless: bool = False
    """Whether the model has nothing but paged rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """Faults that are switched on together, and what they must be called."""

    faults: tuple[str, ...]
    causes: frozenset[Cause]
    look: Look = Look()
    inside: bool = False
    """Whether the fault shows inside one arm, as a read of what was not written there, though
    other cells differ before it."""

    def __str__(self) -> str:
        return "+".join(self.faults) or "healthy"


def _row(faults: str, *causes: Cause, inside: bool = False, **look: Any) -> Row:
    return Row(tuple(faults.split("+")), frozenset(causes), Look(**look), inside)


_FLOOR = {"block": 16, "chunk": 8, "split": 8, "stride": 32}
_THRESHOLD = {
    "block": 32,
    "chunk": 8,
    "split": 8,
    "budget": 128,
    "projection": "by_rows",
    "wide_rows": 33,
}
_BLOCKS = {"block": 8, "split": 8, "chunk": 8}
_NARROW = {"block": 16, "budget": 16, "max_running": 3}

TABLE: tuple[Row, ...] = (
    _row("dispatch-by-queries", Cause.SHAPE_DISPATCH, only="ga", layers="a", suffix=(1, 1),
         one_pass=True),
    _row("drafter-anchor", Cause.DRAFTER_STATE, drafts=True, fills="turn"),
    _row("short-keys", Cause.KEY_COLLISION, fills="ends"),
    _row("rope-restarts", Cause.ROPE_OFFSET, layers="a"),
    _row("rope-restarts", Cause.ROPE_OFFSET, layers="s"),
    _row("rope-by-pass", Cause.ROPE_OFFSET, layers="a", one_pass=True),
    _row("rope-by-pass", Cause.BOTH_WRONG, layers="a", arms=(*ORDER, "reference")),
    _row("rope-stretches", Cause.ROPE_REGIME, layers="a", one_pass=True, hit=(32, 56),
         suffix=(34, 40)),
    _row("top-left-mask", Cause.MASK_SEAM, layers="a", one_pass=True),
    _row("wrong-base", Cause.PARTIAL_MERGE, layers="a"),
    _row("graph-after-hit", Cause.COMPILE_MODE, layers="a"),
    _row("shared-tile", Cause.BATCH_COMPOSITION, drafts=False, mates="decoding"),
    _row("zero-state", Cause.STATE_ZERO),
    _row("foreign-state", Cause.STATE_FOREIGN, fills="other"),
    _row("racy-topk", Cause.NONDETERMINISM, layers="a", hit=(32, 56), config={"split": 4}),
    _row("tail-split", Cause.SHAPE_DISPATCH, layers="g", drafts=False, baseline="off"),
    _row("tail-split+kv-floor", Cause.KV_MIXED_ORIGIN, only="ga", layers="ga", drafts=False,
         hit=(32, 32), suffix=(26, 40), fills="long", config=_FLOOR),
    _row("kernel-mismatch", Cause.KERNEL_MISMATCH, layers="g"),
    _row("slot-compaction", Cause.STATE_FOREIGN, drafts=False, mates="freeing", hit=(48, 48),
         suffix=(20, 24), config=_NARROW),
    _row("stale-chunk-rows", Cause.STALE_READ, layers="g"),
    _row("never-warm", Cause.NO_REUSE),
    _row("cut-rings", Cause.KV_LENGTH, layers="s", drafts=False),
    _row("checkpoint-threshold", Cause.KV_MIXED_ORIGIN, layers="a", hit=(32, 32), suffix=(36, 44),
         fills="threshold", config=_THRESHOLD),
    _row("whole-prompt", Cause.KV_LENGTH, only="a", layers="a", drafts=False, again=True,
         one_pass=True, stateless=True,
        inside=True),
    _row("whole-prompt", Cause.STATE_WRONG_POSITION, again=True),
    _row("stale-table", Cause.KV_READ_PATH, layers="a", fills="other"),
    _row("raw-restore", Cause.LAYOUT, layers="g"),
    _row("narrow-offload", Cause.DTYPE_REQUANT, layers="a"),
    _row("swapped-rows", Cause.OUTPUT_BUFFER, drafts=False, mates="decoding"),
    _row("early-state", Cause.STATE_WRONG_POSITION, hit=(32, 56), config=_BLOCKS),
    _row("late-state", Cause.STATE_WRONG_POSITION, fills="longer", suffix=(2, 7)),
    _row("weak-bit", Cause.STATE_CORRUPTED, first="g", hit=(24, 24), config=_BLOCKS),
    _row("state-rollback-missing", Cause.ROLLBACK_MISSING, drafts=True, new=(6, 10)),
    _row("kv-rollback-missing", Cause.ROLLBACK_MISSING, layers="a", drafts=True, new=(6, 10)),
    _row("shuffled-rows", Cause.KV_ORDER, layers="a"),
    _row("lasting-entries", Cause.KV_OVERWRITTEN, layers="a", drafts=False, hit=(48, 48),
         fills="crowd", config={"block": 16, "blocks": 6}),
    _row("batch-pads", Cause.PAD_CONTAMINATION, mates="filling"),
    _row("state-ignored", Cause.STATE_IGNORED, layers="g", one_pass=True),
    _row("state-not-written", Cause.STATE_NOT_WRITTEN, layers="g"),
)  # fmt: skip
"""Every fault of the samples with the situations in which it shows."""

_STATES = ("raw-restore", "early-state", "zero-state")
_ROWS = ("narrow-offload", "shuffled-rows")
_KERNELS = ("rope-restarts", "wrong-base", "graph-after-hit")

PAIRS: tuple[tuple[str, str, Look], ...] = (
    *((a, b, Look("ga", hit=(32, 48), config=_BLOCKS)) for a in _STATES for b in _ROWS),
    *((a, "raw-restore", Look("g", first="a", only="ga")) for a in _KERNELS),
    ("drafter-anchor", "narrow-offload", Look("a", drafts=True, fills="turn")),
    ("raw-restore", "drafter-anchor", Look("g", drafts=True, fills="turn")),
)
"""Two faults of which neither hides the other: a kernel's lies below, or both are read."""

HARMLESS: tuple[Row, ...] = (
    Row((), frozenset()),
    *(_row(name) for name in ("key-major-slots", "strange-order", "wide-offload")),
)
"""What must never be called anything."""


@cache
def known_faults() -> Mapping[str, Fault]:
    """All faults of the samples by name."""
    modules = [
        importlib.import_module(f"{fault_modules.__name__}.{module.name}")
        for module in pkgutil.iter_modules(fault_modules.__path__)
    ]
    return registry(*(module.FAULTS for module in modules if hasattr(module, "FAULTS")))


def unlisted() -> Sequence[str]:
    """Faults of the samples that no row names."""
    listed = {name for row in (*TABLE, *HARMLESS) for name in row.faults}
    return sorted(set(known_faults()) - listed)


class WatchedCase(SampleCase):
    """A case that keeps what the first run of each arm told its recorder."""

    watched: dict[str, Watching]

    @property
    def turns(self) -> Sequence[Turn]:
        """All requests, in order."""
        return (*self._fills, *self._mates, *self._asked)

    def record(self, arm: Arm, path: Path) -> None:
        with Watching(
            path, arm=arm.name, engine=self.engine, facts=self.facts, overwrite=True
        ) as recorder:
            self.run(arm, recorder)
        if arm.index == 0 and arm.poison is None:
            self.watched[arm.name] = recorder


def causes_of(fault: str) -> frozenset[Cause]:
    """What a fault must be called where it is alone."""
    return next(row.causes for row in TABLE if row.faults == (fault,))


def draw(rng: Random, row: Row) -> WatchedCase:
    """A random situation in which a row's faults may show."""
    look = row.look
    config = _config(rng, look)
    text, hit = _text(rng, look, config)
    if look.again:
        text = text[:hit]
    return WatchedCase(
        "battery",
        str(row),
        config=config,
        fills=_fills(rng, look, config, text, hit),
        asked=[Turn("r1", text, rng.randint(*look.new))],
        mates=_mates(rng, look),
        faults=[known_faults()[name] for name in row.faults],
        parts=ATTENTION_ALONE if look.stateless else None,
        arms=look.arms,
        baseline=look.baseline,
        watched={},
    )


def _config(rng: Random, look: Look) -> EngineConfig:
    layers = list(look.layers) + rng.choices(look.only, k=rng.randint(0 if look.layers else 1, 2))
    rng.shuffle(layers)
    layers[:0] = look.first
    block = rng.choice([8, 16, 16, 32])
    heads = rng.choice([2, 4])
    drafts = (
        rng.choice([0, 0, 1, 2, 3]) if look.drafts is None else look.drafts * rng.randint(1, 3)
    )
    drawn: dict[str, Any] = {
        "layers": "".join(layers),
        "width": rng.choice([16, 24, 32]),
        "heads": heads,
        "kv_heads": rng.choice([1, heads // 2, heads]),
        "head_dim": rng.choice([4, 8]),
        "seed": rng.randrange(1 << 16),
        "block": block,
        "chunk": rng.choice([c for c in (4, 8, 16) if c <= block]),
        "split": rng.choice([4, 8]),
        "topk": rng.randint(1, 3),
        "window": rng.choice([8, 12, 16, 24]),
        "drafts": drafts,
    }
    if look.one_pass:
        drawn |= {"stride": 256, "budget": 128}
    return EngineConfig(**(drawn | dict(look.config or {})))


def _text(rng: Random, look: Look, config: EngineConfig) -> tuple[tuple[int, ...], int]:
    """The compared prompt, and how much of it another request may cache."""
    low, high = look.hit
    hits = [n for n in range(low, high + 1) if n % config.block == 0 and n > 0]
    hit = rng.choice(hits or [config.block])
    length = hit + rng.randint(*look.suffix)
    return document(length, rng.randrange(1 << 16)), hit


def _fills(
    rng: Random, look: Look, config: EngineConfig, text: Sequence[int], hit: int
) -> list[Turn]:
    other = document(LONG * 2, rng.randrange(1 << 16))
    more = 0 if look.one_pass or look.again else rng.randint(1, min(8, config.block - 1))
    fill = Turn("fill", (*text[:hit], *other[:more]), rng.randint(1, 3))
    match look.fills:
        case "other":
            return [fill, Turn("other", other[: hit + rng.randint(1, 4)], 1)]
        case "ends":
            ends = [
                token if at % config.block >= config.block - COVERED else other[at]
                for at, token in enumerate(text[:hit])
            ]
            return [replace(fill, tokens=(*ends, *fill.tokens[hit:]))]
        case "turn":
            return [fill, Turn("turn", tuple(text[: rng.randint(5, 15)]), rng.randint(12, 20))]
        case "crowd":
            return [fill, Turn("other", other[:64], 4)]
        case "longer":
            return [replace(fill, tokens=(*text, *other[: config.block]))]
        case "long":
            return [replace(fill, tokens=tuple(text[: hit + rng.randint(17, 24)]))]
        case "threshold":
            short = Turn("short", tuple(text[: rng.randint(config.block + 1, 2 * hit - 1)]), 1)
            return [short, Turn("long", tuple(text), 1)]
    return [fill]


def _mates(rng: Random, look: Look) -> list[Turn]:
    seed = rng.randrange(1 << 16)
    if look.mates == "decoding":
        return [Turn("mate", document(rng.randint(8, 20), seed), 60)]
    if look.mates == "filling":
        return [Turn("mate", document(rng.randint(40, 56), seed), 4)]
    if look.mates == "freeing":
        tokens = document(64, seed)
        return [Turn("short", tokens[48:], 1), Turn("long", tokens[:48], 4)]
    return []
