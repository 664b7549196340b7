"""Watches a cache during one pass: rows handed to it, rows read from it, states in and out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import torch

from layerdiff.vocabulary import EventKind, Moment, Reach, TensorKind
from layerdiff_hooks.caches import kv
from layerdiff_hooks.caches.state import HeldState, states_of
from layerdiff_hooks.ledger import Seen, Site
from layerdiff_hooks.positions import Rows, rows_of
from layerdiff_hooks.requests import Group
from layerdiff_hooks.rows import RowBlock, digest_elements
from layerdiff_hooks.session import LayerTrace, PassState, Session, split_rows
from layerdiff_hooks.sites import Part

_PORTS = (("key", TensorKind.KV_KEY), ("value", TensorKind.KV_VALUE))


@dataclass(frozen=True, slots=True)
class _Update:
    """An update of one cache layer that is under way."""

    active: PassState
    index: int
    names: tuple[str, str]
    kernel: int
    held: int
    """Columns that the layer said it had."""
    carried: bool


class CacheTap:
    """Stands in for the ``update`` of one cache at a time.

    Args:
        session: The recording.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cache: Any = None
        self._replaced: object = None

    @property
    def attached(self) -> bool:
        """Whether a cache is watched."""
        return self._cache is not None

    def attach(self, active: PassState, cache: Any) -> None:
        """Watch *cache* until `detach`."""
        if cache is self._cache:
            return
        self.detach()
        original: Callable[..., Any] = cache.update
        self._replaced = vars(cache).get("update")

        @wraps(original)
        def update(*args: Any, **kwargs: Any) -> Any:
            session = self._session
            if session.here() is not active or torch.compiler.is_compiling():
                return original(*args, **kwargs)
            begun = session.guard(self._before, active, cache, args, kwargs)
            result = original(*args, **kwargs)
            if begun is not None:
                session.guard(self._after, begun, cache, result)
            return result

        cache.update = update
        self._cache = cache

    def detach(self) -> None:
        """Give the cache its own ``update`` back."""
        cache, self._cache = self._cache, None
        if cache is None:
            return
        if self._replaced is not None:
            cache.update = self._replaced
        else:
            vars(cache).pop("update", None)

    def _before(
        self, active: PassState, cache: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Update | None:
        """The rows that a layer hands over, and whether what it finds was touched."""
        named = dict(zip(("key_states", "value_states", "layer_idx"), args, strict=False))
        key, value, index = (
            {**kwargs, **named}.get(name) for name in ("key_states", "value_states", "layer_idx")
        )
        if not isinstance(key, torch.Tensor) or not isinstance(value, torch.Tensor):
            return None
        if not isinstance(index, int) or active.trace is None:
            self._session.gap("a cache was updated outside the decoder layers")
            return None
        if key.ndim != 4 or key.shape[0] != active.batch or key.shape[2] != active.width:
            self._session.gap("a cache was given rows that are not those of the pass")
            return None
        active.cache_layers.add(index)
        part = active.part
        kernel = self._session.kernel(
            active, part.module if part else active.trace.layer.module, key
        )
        names = declare_kv(self._session, active, index)
        layer = cache.layers[index] if index < len(cache.layers) else None
        held = kv.layer_length(layer) if kv.is_kv(layer) else 0
        for (port, kind), name, tensor in zip(_PORTS, names, (key, value), strict=True):
            self._computed(active, index, port, kind, name, tensor, kernel)
        if not active.group.started:
            self._offset(active.group, names[0], held)
        memory = active.group.memory
        carried = active.group.started and kv.is_kv(layer)
        carried = carried and memory.unchanged(index, "key", layer.keys)  # type: ignore[union-attr]
        carried = carried and memory.unchanged(index, "value", layer.values)  # type: ignore[union-attr]
        return _Update(active, index, names, kernel, held, carried)

    def _computed(
        self,
        active: PassState,
        index: int,
        port: str,
        kind: TensorKind,
        name: str,
        tensor: torch.Tensor,
        kernel: int,
    ) -> None:
        rows = tensor.transpose(1, 2)
        identifier = self._session.book.find(name)[1]
        if identifier is None:
            digests = self._session.digest(active.rows.last(rows).unsqueeze(1)).digests
            last = zip(active.rows.spans, digests, strict=True)
            tails = [(stop - 1, digest) for (_, start, stop), digest in last]
            active.tails.append((index, port, tails))
            return
        grid = active.rows.grid(rows)
        if grid.shape[1] == 0:
            return
        block = digest_kv(self._session, grid, elements=active.thorough)
        seen = Seen(identifier, Moment.COMPUTED, kind, active.rowset, kernel)
        self._session.ledger.observe(seen, block)
        active.tails.append((index, port, split_rows(active.rows, block.digests[:, 0])))

    def _offset(self, group: Group, name: str, held: int) -> None:
        site = self._session.book.find(name)[1]
        if site is None:
            return
        for request in group.indices:
            self._session.ledger.event(EventKind.OFFSET, request=request, site=site, value=held)

    def _after(self, begun: _Update, cache: Any, result: Any) -> None:
        """The rows that the layer reads and did not just make."""
        active, index = begun.active, begun.index
        layer = cache.layers[index]
        for position, (port, kind) in enumerate(_PORTS):
            read = result[position]
            if not kv.filled(read):
                continue
            columns = active.first_column
            if getattr(layer, "is_sliding", False):
                first = kv.first_column(layer, read.shape[2], columns + active.width)
                stop = columns
            else:
                first, stop = 0, begun.held
            if stop > first:
                rows = rows_of(active.group.table, active.group.indices, first, stop)
                self._read(begun, port, kind, rows, read[:, :, : stop - first])
            held = getattr(layer, f"{port}s", None)
            if isinstance(held, torch.Tensor):
                active.group.memory.keep(index, port, held)

    def _read(
        self, begun: _Update, port: str, kind: TensorKind, rows: Rows, tensor: torch.Tensor
    ) -> None:
        session = self._session
        site = session.book.find(begun.names[0 if port == "key" else 1])[1]
        rowset = session.ledger.rowset(rows.spans)
        if site is None or all(start == stop for _, start, stop in rows.spans):
            return
        block = None
        if not begun.carried:
            block = digest_kv(session, rows.grid(tensor.transpose(1, 2)), elements=True)
        session.ledger.observe(Seen(site, Moment.IN, kind, rowset, begun.kernel), block)


def declare_kv(session: Session, active: PassState, index: int | None) -> tuple[str, str]:
    """The names of the key and value sites of the mixer that runs, made known."""
    trace, part = active.trace, active.part
    assert trace is not None
    owner = part.name if part else trace.layer.name
    names = (f"{owner}:key", f"{owner}:value")
    for name, (port, kind) in zip(names, _PORTS, strict=True):
        session.book.take(name, partial(_kv_site, name, kind, trace, part))
        if index is not None:
            active.group.sites[index, port] = name
    return names


def _kv_site(name: str, kind: TensorKind, trace: LayerTrace, part: Part | None) -> Site:
    layer = trace.layer
    inputs = trace.before(part) if part else (trace.entry,)
    return Site(name, kind, layer.index, layer.kind, Reach.ROW, inputs)


def digest_kv(session: Session, grid: torch.Tensor, *, elements: bool) -> RowBlock:
    """Digests of rows [*, *, heads, head_dim], one a token, and order-free ones per head."""
    block = session.digest(grid, grid=True)
    if not elements:
        return block
    return block._replace(elements=digest_elements(grid.flatten(0, 1), key=session.ledger.key))


def state_index(part: Part, active: PassState) -> int:
    """The cache layer in which a mixer keeps its states."""
    own = getattr(part.module, "layer_idx", None)
    assert active.trace is not None
    return own if isinstance(own, int) and own >= 0 else active.trace.layer.index


def observe_states(
    session: Session, active: PassState, part: Part, cache: Any, moment: Moment
) -> list[str]:
    """The states of a mixer, just before or just after it ran; the names of their sites."""
    index = state_index(part, active)
    if index >= len(cache.layers):
        return []
    names = []
    for state in states_of(cache.layers[index]):
        if state.tensor.shape[0] != active.batch:
            session.gap(f"{part.name}: a state has another batch than its pass")
            continue
        active.cache_layers.add(index)
        names.append(_observe_state(session, active, part, index, state, moment))
    return names


def state_site(name: str, kind: TensorKind, trace: LayerTrace, part: Part) -> Site:
    """The site of a state of a mixer."""
    layer = trace.layer
    return Site(name, kind, layer.index, layer.kind, Reach.STATE, trace.before(part))


def _observe_state(
    session: Session, active: PassState, part: Part, index: int, state: HeldState, moment: Moment
) -> str:
    trace, memory = active.trace, active.group.memory
    assert trace is not None
    name = f"{part.name}:{state.port}"
    identifier = session.book.take(name, partial(state_site, name, state.kind, trace, part))
    active.group.sites[index, state.port] = name
    after = moment is Moment.OUT
    lengths = active.group.table.lengths.tolist() if after else active.before
    if after:
        memory.keep(index, state.port, state.tensor)
    carried = (
        not after and active.group.started and memory.unchanged(index, state.port, state.tensor)
    )
    if identifier is None and not after:
        return name
    block = None if carried else session.digest(state.parts, elements=active.thorough)
    if after and block is not None:
        active.states.append((index, state.port, block.digests))
    if identifier is not None:
        spans = [(r, n, n + 1) for r, n in zip(active.group.indices, lengths, strict=True)]
        kernel = session.kernel(active, part.module, state.tensor)
        seen = Seen(identifier, moment, state.kind, session.ledger.rowset(spans), kernel)
        session.ledger.observe(seen, block)
    return name
