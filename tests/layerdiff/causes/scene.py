"""One attention layer, a head and a drafter, recorded from plain arrays: a stage for causes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from layerdiff.comparison import compare_dumps
from layerdiff.digest import element_digests
from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind

Array = np.ndarray[Any, Any]

LENGTH = 12
WIDTH = 16
TOKENS = tuple(range(3, 3 + LENGTH))

SITES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("embed", {}),
    ("query", {"kind": TensorKind.QUERY, "inputs": ["embed"], "layer_index": 0}),
    ("key", {"kind": TensorKind.KV_KEY, "inputs": ["embed"], "layer_index": 0}),
    ("value", {"kind": TensorKind.KV_VALUE, "inputs": ["embed"], "layer_index": 0}),
    (
        "parts",
        {
            "kind": TensorKind.AUX,
            "inputs": ["query", "key", "value"],
            "layer_index": 0,
            "reach": Reach.PREFIX,
        },
    ),
    ("attended", {"kind": TensorKind.ATTENTION_OUT, "inputs": ["parts"], "layer_index": 0}),
    (
        "mixed",
        {
            "kind": TensorKind.HIDDEN,
            "inputs": ["attended", "state"],
            "layer_index": 1,
            "reach": Reach.STATE,
        },
    ),
    ("scores", {"kind": TensorKind.ROUTER, "inputs": ["mixed"], "layer_index": 1}),
    ("margin", {"kind": TensorKind.SCALE, "inputs": ["scores"], "layer_index": 1}),
    ("choice", {"kind": TensorKind.TOPK, "inputs": ["scores", "margin"], "layer_index": 1}),
    ("expert", {"inputs": ["mixed", "choice"], "layer_index": 1}),
    ("head", {"kind": TensorKind.LOGITS, "inputs": ["expert"]}),
    ("reported", {"kind": TensorKind.LOGITS, "inputs": ["head"]}),
    ("best", {"kind": TensorKind.TOPK, "inputs": ["reported"]}),
    (
        "context",
        {"kind": TensorKind.DRAFTER_HIDDEN, "inputs": ["expert"], "role": Role.DRAFTER},
    ),
    (
        "drafted key",
        {
            "kind": TensorKind.DRAFTER_KEY,
            "inputs": ["context"],
            "role": Role.DRAFTER,
            "layer_index": 0,
        },
    ),
    (
        "drafted",
        {
            "inputs": ["context", "drafted key"],
            "role": Role.DRAFTER,
            "layer_index": 0,
            "reach": Reach.PREFIX,
        },
    ),
)
WHOLE_NUMBERS = {"choice", "best"}
DOWN = 1e-7
"""A relative change of the size of float32 rounding."""


@dataclass(frozen=True, slots=True)
class Take:
    """What one arm does otherwise than the plain scene."""

    chunks: tuple[int, ...] = ()
    """Where passes end, besides the end of the tokens."""
    changed: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """(site, first position) -> factor from there on; 0.0 sets new values of the same size."""
    rows: Mapping[tuple[str, int], Sequence[float]] = field(default_factory=dict)
    """(site, position) -> the row."""
    facts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Launch facts by site; on every chunk."""
    rope: int | None = None
    """What is added to the rotary positions of the last chunk, if they are recorded."""
    pads: tuple[int, int] | None = None
    """Pad rows of the last chunk."""
    read: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """(site, position) -> factor of the row as the last chunk read it."""
    accepted: Mapping[int, int] = field(default_factory=dict)
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    tokens: Sequence[int] = TOKENS
    given: int | None = None
    header: Mapping[str, object] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    sketches: bool = True
    rename: str = ""
    """Stands before every name."""


PLAIN = Take()


def record(path: Path, take: Take) -> Path:
    """Writes one arm."""
    with DumpBuilder(path, arm="run", header=take.header, sketches=take.sketches) as builder:
        _Stage(builder, take).run()
    return builder.path


def compared(folder: Path, baseline: Take, candidate: Take) -> Report:
    """Records both arms and compares them."""
    paths = [record(folder / f"{n}.h5", take) for n, take in enumerate((baseline, candidate))]
    return compare_dumps(*(Dump.open(path) for path in paths)).report


class _Stage:
    def __init__(self, builder: DumpBuilder, take: Take) -> None:
        self.builder, self.take = builder, take
        self.sites = [name for name, _ in SITES if name not in take.without]
        name = f"{take.rename}state"
        for site, facts in SITES:
            if site == "mixed":
                kind = TensorKind.RECURRENT_STATE
                inputs = [f"{take.rename}attended"]
                builder.site(name, kind=kind, layer_index=1, reach=Reach.STATE, inputs=inputs)
            if site in self.sites:
                known = [*self.sites, "state"]
                inputs = [f"{take.rename}{i}" for i in facts.get("inputs", []) if i in known]
                builder.site(f"{take.rename}{site}", **{**facts, "inputs": inputs})
        self.values = {site: self.rows_of(site, n) for n, site in enumerate(self.sites)}
        self.state = self.changed("state", np.random.default_rng(99).standard_normal((13, 8)))

    def rows_of(self, site: str, seed: int) -> Array:
        """Rows [LENGTH, n] of a site."""
        generator = np.random.default_rng(seed)
        if site in WHOLE_NUMBERS:
            rows = np.tile(np.arange(4, dtype=np.int64), (LENGTH, 1)) + seed
        elif site == "margin":
            rows = np.full((LENGTH, 1), 0.5, np.float32)
        else:
            rows = generator.standard_normal((LENGTH, WIDTH)).astype(np.float32)
        return self.changed(site, rows)

    def changed(self, site: str, rows: Array) -> Array:
        """*rows* with what this arm has otherwise."""
        rows = rows if site in WHOLE_NUMBERS else rows.astype(np.float32)
        for (name, at), factor in self.take.changed.items():
            if name == site:
                other = np.random.default_rng(5).standard_normal(rows[at:].shape)
                rows[at:] = rows[at:] * np.float32(factor) if factor else other
        for (name, at), row in self.take.rows.items():
            if name == site:
                rows[at] = row
        return rows

    def run(self) -> None:
        """Every chunk."""
        take = self.take
        me = self.builder.request(f"{take.rename}r1", take.tokens, given=take.given)
        self.builder.event(EventKind.LOOKUP, request=me, value=0)
        stops = [*take.chunks, LENGTH]
        for start, stop in zip([0, *take.chunks], stops, strict=True):
            self.chunk(me, start, stop)

    def chunk(self, me: int, start: int, stop: int) -> None:
        """One pass."""
        take, builder = self.take, self.builder
        state = f"{take.rename}state"
        if start:
            self.look_back(me, start)
            builder.observe(
                state, self.state[None, start], [(me, start, start + 1)], moment=Moment.IN
            )
        for site in self.sites:
            facts = take.facts.get(site)
            kernel = builder.kernel(f"{take.rename}run", facts) if facts else schema.NO_TEXT
            name, rows = f"{take.rename}{site}", self.values[site][start:stop]
            number = builder.observe(name, rows, [(me, start, stop)], kernel=kernel)
            if site in WHOLE_NUMBERS:
                whole = element_digests(rows.reshape(1, -1).view(np.uint64))
                total = np.array([(number, 0, whole[0])], schema.ELEMENT)
                builder.writer.append("elements", total)
        builder.observe(state, self.state[None, stop], [(me, stop, stop + 1)], moment=Moment.OUT)
        self.tell(me, start, stop)
        builder.commit([(me, start, stop)], phase=Phase.PREFILL)

    def look_back(self, me: int, start: int) -> None:
        """The cached rows as this pass reads them."""
        for site in ("key", "value", "drafted key"):
            rows = self.values[site][:start].copy()
            for (name, at), factor in self.take.read.items():
                if name == site:
                    rows[at] *= factor
            name = f"{self.take.rename}{site}"
            self.builder.observe(name, rows, [(me, 0, start)], moment=Moment.IN)

    def tell(self, me: int, start: int, stop: int) -> None:
        """What is recorded beside the tensors."""
        take, writer = self.take, self.builder.writer
        last = stop == LENGTH
        if take.rope is not None:
            first = start + (take.rope if last else 0)
            row = (writer.pass_index, me, start, stop, first, 1)
            writer.append("rope", np.array([row], schema.ROPE))
        if take.pads is not None and last:
            pads = np.array([(writer.pass_index, me, *take.pads)], schema.PADS)
            writer.append("pads", pads)
        for at, count in take.accepted.items():
            if start <= at < stop:
                span = (at, at + 3)
                self.builder.event(EventKind.ACCEPTED, request=me, span=span, value=count)
        for (site, at), held in take.offsets.items():
            if at == start:
                name, span = f"{take.rename}{site}", (at, at + 1)
                self.builder.event(EventKind.OFFSET, request=me, site=name, span=span, value=held)
