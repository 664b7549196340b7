"""The prefix experiment: one prompt cold, and on a cache that another request filled."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from layerdiff_hooks.hunt import Arm, Case

if TYPE_CHECKING:
    from torch import nn

LENGTH = 200
"""Tokens of the prompt."""
PREFIX = 70


class PrefixCase(Case):
    """A tiny stock hybrid model of transformers, watched through its hooks.

    Args:
        prefix: Tokens that are reused, 1 to 199.
        seed: Of weights and prompt.
        fault: Whether one bit of the cache is flipped before it is reused.
    """

    title = "a stock hybrid model takes over a cache (--prefix, --fault, --seed)"
    can = frozenset({"no-state", "poison"})

    def __init__(self, prefix: int = PREFIX, seed: int = 0, *, fault: bool = False) -> None:
        self.name = f"prefix-{prefix}-seed-{seed}{'-fault' if fault else ''}"
        self._prefix, self._seed, self._fault = prefix, seed, fault
        self._model: nn.Module | None = None

    def setup(self) -> None:
        """Builds the model; it keeps nothing between runs."""
        from layerdiff_samples import tiny

        self._model = tiny.tiny_hybrid(self._seed)

    def record(self, arm: Arm, path: Path) -> None:
        """One arm, through the hooks of an unchanged model."""
        import torch

        from layerdiff_samples import arms, tiny

        assert self._model is not None
        tokens = tiny.prompt(LENGTH, seed=self._seed)
        with torch.no_grad():
            if not arm.fill:
                chunks = arm.layout["r1"] if arm.layout else ((0, LENGTH),)
                arms.cold(self._model, tokens, path, arm.name, chunks=chunks)
                return
            between = self._between(arm)
            reused = self._prefix if arm.restore else 0
            arms.warm(self._model, tokens, self._prefix, path, arm.name, between, reused=reused)

    def _between(self, arm: Arm) -> "Callable[[object], None]":
        from layerdiff_samples import tiny

        def change(cache: object) -> None:
            if self._fault:
                tiny.flip_one_bit(cache)
            if arm.poison is not None:
                _overwrite(cache, arm.poison)

        return change


def _overwrite(cache: object, what: str) -> None:
    """Other values in what one layer of a cache holds: ``layer-N`` or ``layer-N-conv``."""
    import torch

    number, _, tensor = what.removeprefix("layer-").partition("-")
    layer = getattr(cache, "layers")[int(number)]  # noqa: B009 - any cache class
    for name in ("conv_states",) if tensor else ("keys", "values", "recurrent_states"):
        held = getattr(layer, name, None)
        for value in held.values() if isinstance(held, dict) else (held,):
            if isinstance(value, torch.Tensor):
                value.mul_(-1.25).add_(0.125)
