"""Caches of recurrent and convolution states: what a layer holds, as rows with parts.

``cache.layers[i].recurrent_states`` and ``.conv_states`` are dicts keyed by index (or tensors),
and kernels update the tensors in place.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from layerdiff.vocabulary import TensorKind

_FAMILIES = (
    ("recurrent", "recurrent_states", TensorKind.RECURRENT_STATE),
    ("conv", "conv_states", TensorKind.CONV_STATE),
)


@dataclass(frozen=True, slots=True)
class HeldState:
    """One state tensor of a cache layer."""

    port: str
    """``recurrent``, ``conv``, or with ``.1`` and so on for further states."""
    kind: TensorKind
    tensor: torch.Tensor
    """[batch, ...], as the cache holds it."""

    @property
    def parts(self) -> torch.Tensor:
        """[batch, parts, ...]: a part is a head, or a column in time of a convolution."""
        if self.kind is TensorKind.CONV_STATE:
            return self.tensor.movedim(-1, 1)
        if self.tensor.ndim >= 4:
            return self.tensor
        return self.tensor.unsqueeze(1)


def states_of(layer: object) -> Iterator[HeldState]:
    """The states that a cache layer holds after at least one token."""
    present = getattr(layer, "has_previous_state", None)
    for family, attribute, kind in _FAMILIES:
        held = getattr(layer, attribute, None)
        items = held.items() if isinstance(held, dict) else [(0, held)]
        for index, tensor in items:
            if not isinstance(tensor, torch.Tensor) or tensor.ndim < 2:
                continue
            if isinstance(present, dict) and not present.get(index, True):
                continue
            yield HeldState(f"{family}.{index}" if index else family, kind, tensor)


def has_state(cache: object) -> bool:
    """Whether any layer holds a state that has consumed tokens."""
    layers: list[object] = getattr(cache, "layers", [])
    return any(True for layer in layers for _ in states_of(layer))
