"""A recorder that keeps raw bytes in memory, so that tests compare tensors and not dumps."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from layerdiff.vocabulary import EventKind, Phase
from layerdiff_hooks.recorder import Recorder
from layerdiff_hooks.requests import Request

Cells = dict[tuple[str, str, int], set[bytes]]
"""Every value that was seen, by site, request and position; of states by tokens consumed."""


class Spy(Recorder):
    """Takes what an engine tells, and writes nothing."""

    def __init__(self) -> None:
        self.cells: Cells = defaultdict(set)
        self.events: list[tuple[EventKind, str | None, dict[str, Any]]] = []
        self.phases: list[Phase] = []
        self.spans: list[tuple[str, int, int]] = []
        self.hits: dict[str, int] = {}
        self.kernels: set[str] = set()

    def begin(self, request_id: str, token_ids: Sequence[int] = (), **told: Any) -> Request:
        self.hits[request_id] = told["hit"]
        return Request(0, 0, request_id)

    def end(self, request: Request) -> None: ...

    def generated(self, *_: Any, **told: Any) -> None: ...

    def drafted(self, *_: Any, **told: Any) -> None: ...

    def rope(self, *_: Any, **told: Any) -> None: ...

    def pads(self, *_: Any, **told: Any) -> None: ...

    @contextmanager
    def forward_pass(self, chunks: Sequence[Any], **told: Any) -> Iterator[int]:
        self.phases.append(told["phase"])
        self.spans = [(request.name, start, stop) for request, start, stop in chunks]
        yield 0

    def observe(self, site: str, tensor: Any, **told: Any) -> None:
        rows = told["rows"]
        named = self.spans if rows is None else [(r.name, a, b) for r, a, b in rows]
        places = [(name, p) for name, start, stop in named for p in range(start, stop)]
        assert len(places) == len(tensor)
        for (name, position), row in zip(places, tensor, strict=True):
            self.cells[site, name, position].add(_content(row))

    def state(self, site: str, tensor: Any, **told: Any) -> None:
        self.cells[site, told["request"].name, told["position"]].add(_content(tensor))

    def event(self, kind: EventKind, **told: Any) -> None:
        request = told.pop("request")
        self.events.append((kind, None if request is None else request.name, told))

    def kernel(self, name: str, *, source: str = "", **facts: object) -> int:
        self.kernels.add(name)
        return 1

    def counted(self, kind: EventKind) -> int:
        """How many events of one kind there were."""
        return sum(found is kind for found, _, _ in self.events)


def differing(ours: Mapping[Any, set[bytes]], theirs: Mapping[Any, set[bytes]]) -> list[Any]:
    """Cells that *ours* saw with a value that *theirs* never had there."""
    return [key for key in ours if key in theirs and not ours[key] <= theirs[key]]


def _content(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().numpy().tobytes()
