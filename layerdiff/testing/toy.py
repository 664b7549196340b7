"""A toy hybrid model in NumPy: its rows do not depend on chunking, and faults can be planted.

Each layer mixes by attention over cached keys and values, or by a recurrent state behind a
short convolution. Two runs of the same requests differ exactly downstream of what was planted.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from layerdiff.testing.builder import DumpBuilder, Span
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, TensorKind

Array = np.ndarray[Any, Any]

_HEADS: Final = 2
_HEAD_DIM: Final = 4
_WIDTH: Final = _HEADS * _HEAD_DIM
_COLUMNS: Final = 3
_VOCABULARY: Final = 32


@dataclass(frozen=True, slots=True)
class ToyRequest:
    """One request of a toy run."""

    name: str
    tokens: tuple[int, ...]
    chunks: tuple[int, ...] = ()
    """Where passes end, besides the end of the tokens."""
    takes: str | None = None
    """The earlier request whose cache it takes over, as it stood at the end."""


@dataclass(frozen=True, slots=True)
class Plant:
    """One changed value."""

    site: str
    position: int
    moment: Moment = Moment.COMPUTED
    """COMPUTED changes a row as it is made; IN changes the copied cache before it is reused."""
    request: str | None = None
    """In which request; None is any."""
    scale: float = 1.5
    """What one element of the row is multiplied with."""
    element: int = 0
    """Which one, counted through the row or state."""


@dataclass(slots=True)
class _Cache:
    """What one request leaves behind, by site."""

    rows: dict[str, list[Array]] = field(default_factory=dict)
    states: dict[str, Array] = field(default_factory=dict)
    writers: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(request, pass, start, stop) of what was written, in order."""
    length: int = 0


def toy_dump(
    path: Path | str,
    requests: Sequence[ToyRequest],
    *,
    arm: str = "cold",
    layers: Sequence[str] = ("linear attention", "full attention"),
    plants: Sequence[Plant] = (),
    sketches: bool = True,
) -> Path:
    """Run *requests* through a toy model and record the run.

    Args:
        path: The dump to make; an older one is replaced.
        requests: In order.
        arm: What the header says.
        layers: ``full attention`` or ``linear attention`` for each layer.
        plants: Values to change.
        sketches: Whether each digest has a sketch.

    Returns:
        The path.
    """
    with DumpBuilder(path, arm=arm, sketches=sketches) as builder:
        model = _Model(builder, tuple(layers), tuple(plants))
        for request in requests:
            model.run(request)
    return builder.path


class _Model:
    def __init__(
        self, builder: DumpBuilder, layers: tuple[str, ...], plants: tuple[Plant, ...]
    ) -> None:
        self.builder = builder
        self.layers = layers
        self._plants = plants
        self._caches: dict[str, tuple[int, _Cache]] = {}
        self.kernel = builder.kernel("Toy.forward", {"dtype": "float32"}, "toy.py:1")
        generator = np.random.default_rng(7)
        self.table = generator.standard_normal((_VOCABULARY, _WIDTH)).astype(np.float32)
        self._declare()

    def _declare(self) -> None:
        site = self.builder.site
        last = "model.embed_tokens:out"
        site(last)
        for index, kind in enumerate(self.layers):
            layer = f"model.layers.{index}"
            place: dict[str, Any] = {"layer_index": index, "layer_kind": kind}
            site(f"{layer}:in", inputs=(last,), glue=True, **place)
            mixer, ports, reach = _mixer(layer, kind)
            for port, tensor, kind_reach in ports:
                name = f"{mixer}:{port}"
                site(name, kind=tensor, reach=kind_reach, inputs=(f"{layer}:in",), **place)
            read = (f"{layer}:in", *(f"{mixer}:{port}" for port, _, _ in ports))
            site(f"{mixer}:out", inputs=read, reach=reach, **place)
            site(f"{layer}.mlp:out", inputs=(f"{layer}:in", f"{mixer}:out"), **place)
            last = f"{layer}:out"
            parts = (f"{layer}:in", f"{mixer}:out", f"{layer}.mlp:out")
            site(last, inputs=parts, glue=True, **place)
        site("model.norm:out", inputs=(last,))
        site("lm_head:out", kind=TensorKind.LOGITS, inputs=("model.norm:out",))

    def run(self, request: ToyRequest) -> None:
        """Run one request, chunk by chunk."""
        source, cache = self._taken(request)
        hit = cache.length
        index = self.builder.request(request.name, request.tokens, hit=hit, source=source)
        self.builder.event(EventKind.LOOKUP, request=index, value=hit)
        stops = [*(stop for stop in request.chunks if stop > hit), len(request.tokens)]
        for stop in dict.fromkeys(stops):
            start = cache.length
            step = _Step(self, request, index, cache, start, stop, fresh=start == hit)
            step.run()
        self._caches[request.name] = (index, cache)

    def _taken(self, request: ToyRequest) -> tuple[int | None, _Cache]:
        if request.takes is None:
            return None, _Cache()
        source, cache = self._caches[request.takes]
        cache = copy.deepcopy(cache)
        for plant in self._plants:
            if plant.moment is Moment.IN and plant.request in (None, request.name):
                if plant.site in cache.rows:
                    cache.rows[plant.site][plant.position].flat[plant.element] *= plant.scale
                elif plant.position == cache.length:
                    cache.states[plant.site].flat[plant.element] *= plant.scale
        return source, cache

    def planted(self, request: str, site: str, position: int, row: Array) -> Array:
        """*row*, with what is planted there."""
        for plant in self._plants:
            here = plant.moment is Moment.COMPUTED and plant.request in (None, request)
            if here and (plant.site, plant.position) == (site, position):
                row = row.copy()
                row.flat[plant.element] *= plant.scale
        return row


class _Step:
    """One pass over one chunk."""

    def __init__(
        self,
        model: _Model,
        request: ToyRequest,
        index: int,
        cache: _Cache,
        start: int,
        stop: int,
        *,
        fresh: bool,
    ) -> None:
        self._model = model
        self._builder = model.builder
        self._request, self._index, self._cache = request, index, cache
        self._start, self._stop, self._fresh = start, stop, fresh
        self._span: Span = (index, start, stop)

    def run(self) -> None:
        """Run the chunk through all layers and commit the pass."""
        tokens = self._request.tokens[self._start : self._stop]
        hidden = self._rows(
            "model.embed_tokens:out", self._model.table[np.array(tokens) % _VOCABULARY]
        )
        for index, kind in enumerate(self._model.layers):
            hidden = self._layer(f"model.layers.{index}", index, kind, hidden)
        normed = self._rows("model.norm:out", hidden / (1 + np.abs(hidden)))
        self._rows(
            "lm_head:out", np.stack([row * self._model.table for row in normed]).sum(axis=2)
        )
        self._finish()

    def _finish(self) -> None:
        stop, whole = self._stop, [(self._index, 0, self._stop)]
        if stop == len(self._request.tokens):
            for site, rows in self._cache.rows.items():
                self._builder.observe(site, np.stack(rows), whole, moment=Moment.OUT)
        self._lineage()
        self._cache.length = stop
        one = stop - self._start == 1 and self._start > 0
        self._builder.commit([self._span], phase=Phase.DECODE if one else Phase.PREFILL)

    def _lineage(self) -> None:
        event, me, writers = self._builder.event, self._index, self._cache.writers
        for request, index, start, stop in writers:
            source = (request, index)
            event(EventKind.KV_READ, request=me, source=source, span=(start, stop))
        if writers:
            at = (self._start, self._start + 1)
            event(EventKind.STATE_READ, request=me, source=writers[-1][:2], span=at)
        event(EventKind.KV_WRITE, request=me, span=(self._start, self._stop))
        writers.append((me, self._builder.writer.pass_index, self._start, self._stop))

    def _rows(self, site: str, rows: Array) -> Array:
        name = self._request.name
        changed = [
            self._model.planted(name, site, self._start + offset, row)
            for offset, row in enumerate(rows)
        ]
        rows = np.stack(changed).astype(np.float32)
        self._builder.observe(site, rows, [self._span], kernel=self._model.kernel)
        return rows

    def _layer(self, layer: str, index: int, kind: str, hidden: Array) -> Array:
        hidden = self._rows(f"{layer}:in", hidden)
        mix = self._attend if kind == "full attention" else self._scan
        mixed = self._rows(f"{_mixer(layer, kind)[0]}:out", mix(layer, index, hidden))
        mlp = self._rows(f"{layer}.mlp:out", np.tanh((hidden + mixed) * np.float32(0.7)))
        return self._rows(f"{layer}:out", hidden + mixed + mlp)

    def _attend(self, layer: str, index: int, hidden: Array) -> Array:
        heads = hidden.reshape(-1, _HEADS, _HEAD_DIM)
        made = {"key": heads * np.float32(0.9), "value": heads[:, ::-1] * np.float32(1.1 + index)}
        for port, rows in made.items():
            site = f"{layer}.self_attn:{port}"
            kept = self._cache.rows.setdefault(site, [])
            if self._start:
                self._read(site, kept)
            kept.extend(self._rows(site, rows))
        keys, values = (np.stack(self._cache.rows[f"{layer}.self_attn:{port}"]) for port in made)
        return np.stack([_attended(keys, values, p) for p in range(self._start, self._stop)])

    def _read(self, site: str, kept: list[Array]) -> None:
        spans = [(self._index, 0, self._start)]
        if self._fresh:
            self._builder.observe(site, np.stack(kept), spans, moment=Moment.IN)
        else:
            self._builder.carried(site, spans)

    def _scan(self, layer: str, index: int, hidden: Array) -> Array:
        conv_site, state_site = f"{layer}.linear_attn:conv", f"{layer}.linear_attn:recurrent"
        states = self._cache.states
        conv = states.get(conv_site, np.zeros((_WIDTH, _COLUMNS), np.float32))
        state = states.get(state_site, np.zeros((_HEADS, _HEAD_DIM, _HEAD_DIM), np.float32))
        if self._start:
            self._states(conv_site, conv.T, state_site, state, self._start, Moment.IN)
        rows = []
        for row in hidden:
            conv = np.concatenate((conv[:, 1:], row[:, None]), axis=1)
            heads = np.tanh(conv.sum(axis=1)).reshape(_HEADS, _HEAD_DIM)
            state = state * np.float32(0.9) + heads[:, :, None] * heads[:, None, :]
            rows.append((state * heads[:, None, :]).sum(axis=2).reshape(_WIDTH))
        states[conv_site], states[state_site] = conv, state
        self._states(conv_site, conv.T, state_site, state, self._stop, Moment.OUT)
        return np.stack(rows) * np.float32(0.5 + index)

    def _states(
        self, conv_site: str, conv: Array, site: str, state: Array, position: int, moment: Moment
    ) -> None:
        spans = [(self._index, position, position + 1)]
        for name, value in ((conv_site, conv), (site, state)):
            self._builder.observe(name, value[None], spans, moment=moment, parts=True)


def _mixer(layer: str, kind: str) -> tuple[str, tuple[tuple[str, TensorKind, Reach], ...], Reach]:
    """A layer's mixer: its name, its cached ports, and its own reach."""
    if kind == "full attention":
        ports = (
            ("key", TensorKind.KV_KEY, Reach.ROW),
            ("value", TensorKind.KV_VALUE, Reach.ROW),
        )
        return f"{layer}.self_attn", ports, Reach.PREFIX
    states = (
        ("recurrent", TensorKind.RECURRENT_STATE, Reach.STATE),
        ("conv", TensorKind.CONV_STATE, Reach.STATE),
    )
    return f"{layer}.linear_attn", states, Reach.STATE


def _attended(keys: Array, values: Array, position: int) -> Array:
    """What position sees of the rows up to itself, the same whatever else is cached."""
    near = (1 / (1 + position - np.arange(position + 1, dtype=np.float32)))[:, None, None]
    seen = near * np.tanh(keys[: position + 1]) * values[: position + 1]
    attended: Array = seen.sum(axis=0).reshape(_WIDTH)
    return attended
