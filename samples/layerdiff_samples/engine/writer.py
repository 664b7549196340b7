"""Who wrote what lies in a cache."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote rows or a state, as the engine's own books say."""

    request: str
    pass_index: int
