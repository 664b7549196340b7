"""A recorder that also keeps what it is told in memory: raw bytes, for oracles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from layerdiff.vocabulary import EventKind, Moment, Role, TensorKind
from layerdiff_hooks.recorder import Recorder
from layerdiff_hooks.requests import Request


@dataclass(frozen=True, slots=True)
class Seen:
    """One row or state, as it was told."""

    order: int
    request: str
    start: int
    """Where the pass began for this request; -1 outside any pass."""
    site: str
    role: Role
    layer_index: int | None
    kind: TensorKind
    moment: Moment
    position: int
    prefix: int
    """Hash of the tokens that it depends on."""
    value: bytes


@dataclass(slots=True)
class Told:
    """A request, as the engine told of it."""

    hit: int
    chain: list[int] = field(default_factory=list)
    """Hash of the first n tokens, by n."""
    row_sources: list[tuple[int, int, str]] = field(default_factory=list)
    """(start, stop, request) that wrote rows, by the engine's books."""
    state_source: tuple[int, str] | None = None
    """(position, request) that saved the state, by the engine's books."""


class Watching(Recorder):
    """Records as usual, and keeps every row and state."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.seen: list[Seen] = []
        self.told: dict[str, Told] = {}
        self._running: list[tuple[str, int, int]] = []

    def begin(self, request_id: str, token_ids: Sequence[int] = (), **told: Any) -> Request:
        known = self.told[request_id] = Told(told.get("hit") or 0, [0])
        _extend(known, 0, token_ids)
        return super().begin(request_id, token_ids, **told)

    def generated(
        self, request: Request | str, token_ids: Sequence[int], *, start: int | None = None
    ) -> None:
        known = self.told[_name(request)]
        _extend(known, len(known.chain) - 1 if start is None else start, token_ids)
        super().generated(request, token_ids, start=start)

    @contextmanager
    def forward_pass(self, chunks: Sequence[Any], **told: Any) -> Iterator[int]:
        self._running = [(_name(request), start, stop) for request, start, stop in chunks]
        with super().forward_pass(chunks, **told) as index:
            yield index
        self._running = []

    def observe(self, site: str, tensor: Any, **told: Any) -> None:
        super().observe(site, tensor, **told)
        rows = told.get("rows")
        spans = self._running if rows is None else [(_name(r), a, b) for r, a, b in rows]
        places = [(name, p) for name, start, stop in spans for p in range(start, stop)]
        for (name, position), row in zip(places, tensor, strict=True):
            self._keep(name, position, position + 1, site, row, told)

    def state(self, site: str, tensor: Any, **told: Any) -> None:
        super().state(site, tensor, **told)
        position = told["position"]
        self._keep(_name(told["request"]), position, position, site, tensor, told)

    def event(self, kind: EventKind, **told: Any) -> None:
        super().event(kind, **told)
        request, source = told.get("request"), told.get("source")
        if request is None or source is None:
            return
        known, name = self.told[_name(request)], _name(source)
        if kind is EventKind.STATE_READ:
            known.state_source = (told["start"], name)
        elif kind is EventKind.KV_READ and name != _name(request):
            part = (told["start"], told["stop"], name)
            if part not in known.row_sources:
                known.row_sources.append(part)

    def _keep(
        self, name: str, position: int, length: int, site: str, value: Any, told: dict[str, Any]
    ) -> None:
        starts = [start for request, start, _ in self._running if request == name]
        chain = self.told[name].chain
        kind = told.get("kind", TensorKind.HIDDEN)
        self.seen.append(
            Seen(
                len(self.seen),
                name,
                min(starts, default=-1),
                site,
                told.get("role", Role.TARGET),
                told.get("layer_index"),
                kind,
                told.get("moment", Moment.COMPUTED),
                position,
                chain[length] if length < len(chain) else -1,
                _content(value),
            )
        )


def _extend(known: Told, start: int, token_ids: Sequence[int]) -> None:
    for at, token in enumerate(token_ids, start):
        value = hash((known.chain[at], int(token)))
        if at + 1 < len(known.chain) and known.chain[at + 1] == value:
            continue
        del known.chain[at + 1 :]
        known.chain.append(value)


def _name(request: Request | str) -> str:
    return request if isinstance(request, str) else request.name


def _content(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous().numpy()
    return np.ascontiguousarray(value).tobytes()
