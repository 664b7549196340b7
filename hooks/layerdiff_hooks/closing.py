"""The end of requests: what their cache holds then, read once more and hashed in full."""

import torch

from layerdiff.format import schema
from layerdiff.vocabulary import EventKind, Moment, Phase, TensorKind
from layerdiff_hooks.cache_taps import digest_kv
from layerdiff_hooks.caches import kv
from layerdiff_hooks.caches.state import states_of
from layerdiff_hooks.ledger import Seen
from layerdiff_hooks.positions import rows_of
from layerdiff_hooks.requests import Group
from layerdiff_hooks.session import Session


def close_group(session: Session, group: Group) -> None:
    """Record a group's cache at moment out, as a pass of its own without rows, and let it go."""
    cache, group.cache = group.cache, None
    group.memory.forget()
    if cache is None or group.lost or not group.passes:
        return
    columns = kv.kv_length(cache)
    width = group.table.width
    for index, layer in enumerate(cache.layers):
        if kv.is_kv(layer):
            held = min(width if columns is None else columns, width)
            for port, kind in (("key", TensorKind.KV_KEY), ("value", TensorKind.KV_VALUE)):
                _close_rows(session, group, index, layer, port, kind, held)
        # A cache that was cut or refilled since the last pass says nothing of a state's position.
        if columns is None or columns == width:
            _close_states(session, group, index, layer)
    if session.ledger.pending:
        session.ledger.commit(phase=Phase.MIXED, flags=schema.PASS_BETWEEN, rowset=schema.NO_TEXT)


def _close_rows(
    session: Session,
    group: Group,
    index: int,
    layer: object,
    port: str,
    kind: TensorKind,
    columns: int,
) -> None:
    tensor: torch.Tensor = getattr(layer, f"{port}s")
    site = session.book.find(group.sites.get((index, port), ""))[1]
    if site is None or tensor.shape[0] != group.table.batch:
        return
    if port == "key":
        for request in group.indices:
            value = kv.layer_length(layer)
            session.ledger.event(EventKind.OFFSET, request=request, site=site, value=value)
    first = kv.first_column(layer, tensor.shape[2], columns)
    slots = min(tensor.shape[2], columns - first)
    if slots <= 0:
        return
    rows = rows_of(group.table, group.indices, first, first + slots)
    grid = rows.grid(tensor[:, :, :slots].transpose(1, 2))
    if grid.shape[0] and grid.shape[1]:
        seen = Seen(site, Moment.OUT, kind, session.ledger.rowset(rows.spans))
        session.ledger.observe(seen, digest_kv(session, grid, elements=True))


def _close_states(session: Session, group: Group, index: int, layer: object) -> None:
    spans = [
        (request, int(n), int(n) + 1)
        for request, n in zip(group.indices, group.table.lengths, strict=True)
    ]
    for state in states_of(layer):
        site = session.book.find(group.sites.get((index, state.port), ""))[1]
        if site is None or state.tensor.shape[0] != group.table.batch:
            continue
        seen = Seen(site, Moment.OUT, state.kind, session.ledger.rowset(spans))
        session.ledger.observe(seen, session.digest(state.parts, elements=True))
