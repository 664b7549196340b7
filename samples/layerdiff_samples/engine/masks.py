"""Which keys a query may see."""

from dataclasses import dataclass

import torch
from torch import Tensor

from layerdiff.vocabulary import Phase


@dataclass(frozen=True, slots=True)
class MaskFacts:
    """Where a chunk lies in what its cache holds."""

    start: int
    """Row of the cache at which the chunk's first key was written."""
    rows: int
    window: int | None
    """Keys that a query sees, its own included; None for all before it."""
    hit: int
    phase: Phase


class CausalMask:
    """A query sees its own key and those before it."""

    def allow(self, queries: Tensor, keys: Tensor, facts: MaskFacts) -> Tensor:
        """[queries, keys] of bool, from their rows in the cache."""
        distance = queries[:, None] - keys[None, :]
        allowed = distance >= 0
        if facts.window is not None:
            allowed &= distance < facts.window
        return allowed

    def describe(self, facts: MaskFacts) -> dict[str, object]:
        """The rule as a launch fact."""
        kind = "causal" if facts.window is None else "sliding"
        return {"kind": kind, "window": facts.window, "anchor": "cache"}


def cache_rows(first: int, count: int) -> Tensor:
    """Rows first, first + 1, ... of a cache."""
    return torch.arange(first, first + count)
