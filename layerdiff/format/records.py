"""What a reader hands out where a row of a table holds text: plain frozen records."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from layerdiff.vocabulary import EventKind, Reach, Role, TensorKind


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and all that is generated for it."""

    index: int
    name: str
    pass_index: int
    """The first pass that belongs to it."""
    batch_row: int
    """0-based row of the batch in that pass."""
    explicit: bool
    """Whether the user named its bounds."""
    source: int | None
    """The request whose cache it took over, if known."""
    hit: int | None
    """Positions that a cache served: those told, below where its own first pass begins.

    0 is cold, None is unknown.
    """
    told: int | None
    """The hit that the engine told."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where tensors are observed."""

    index: int
    name: str
    """Module path and port, such as ``model.layers.3.mlp:out``."""
    layer_index: int | None
    """0-based decoder block; None outside any."""
    layer_kind: str
    """Such as ``full attention``; empty outside a layer or when unknown."""
    role: Role
    kind: TensorKind
    reach: Reach
    inputs: tuple[int, ...]
    """Indices of the sites that it directly depends on inside one pass."""
    glue: bool = False
    """Whether it only hands on or adds up its inputs."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The function that computed a tensor, and its launch facts."""

    index: int
    name: str
    facts: Mapping[str, object]
    source: str
    """Such as ``modeling_qwen3_next.py:660``; empty when unknown."""


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a cache, a request or the recording; None where it does not apply."""

    index: int
    pass_index: int
    kind: EventKind
    request: int | None
    site: int | None
    source_request: int | None
    source_pass: int | None
    start: int | None
    """First position, 0-based."""
    stop: int | None
    """Position after the last."""
    value: int | None
    text: str
    place: int | None = None
    """Block or slot."""
    generation: int | None = None
    """How often the place has been handed out."""

    @property
    def facts(self) -> Mapping[str, object]:
        """What the text holds when it is a JSON object; empty otherwise."""
        if not self.text.startswith("{"):
            return {}
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
