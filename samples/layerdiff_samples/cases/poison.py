"""Overwrites what a request restored, after restoring and before anything reads it."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from torch import Tensor

from layerdiff_samples.engine.draft_rows import DraftRows
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import Hit
from layerdiff_samples.engine.request import Request, State


def poisoned(parts: Parts, what: str, names: Collection[str]) -> Parts:
    """Parts that overwrite the restored values of one layer or of the drafter.

    Args:
        what: ``layer-N`` (recurrent state, ring and KV), ``layer-N-conv`` or ``drafter``.
        names: Requests whose restored values are overwritten.
    """
    if what == "drafter":
        return replace(parts, drafter=_drafter(parts, names))
    number, _, tensor = what.removeprefix("layer-").partition("-")
    layer = int(number)
    found = replace(parts, checkpoints=_checkpoints(parts, layer, names, conv=tensor == "conv"))
    return found if tensor else replace(found, prefix_cache=_prefix_cache(parts, layer))


def _other(value: Tensor) -> Tensor:
    return value * -1.25 + 0.125


def _belongs(name: str, layer: int, *, conv: bool) -> bool:
    """Whether a state is the one of a layer's mixer, or of the convolution in front of it.

    Each is overwritten by itself: a mixer that ignores its state would seem to read it where the
    convolution gives it other rows.
    """
    prefix, port = name.split(":")
    return prefix == f"layers.{layer}" and (port == "conv_state") is conv


def _checkpoints(parts: Parts, layer: int, names: Collection[str], *, conv: bool) -> Any:
    class PoisonedCheckpoints(parts.checkpoints):  # type: ignore[name-defined, misc]
        """Restores other states of one layer."""

        def restore(self, request: Request, saved: Any) -> State:
            state = super().restore(request, saved)
            if request.name not in names:
                return state  # type: ignore[no-any-return]
            return {n: _other(v) if _belongs(n, layer, conv=conv) else v for n, v in state.items()}

    return PoisonedCheckpoints


def _prefix_cache(parts: Parts, layer: int) -> Any:
    class PoisonedPrefixCache(parts.prefix_cache):  # type: ignore[name-defined, misc]
        """Overwrites the blocks of a hit."""

        def take(self, hit: Hit) -> None:
            super().take(hit)
            for pool in (self.blocks.keys, self.blocks.values):
                if layer in pool:
                    for block in hit.blocks:
                        pool[layer][block] = _other(pool[layer][block])

    return PoisonedPrefixCache


def _drafter(parts: Parts, names: Collection[str]) -> Any:
    class PoisonedDrafter(parts.drafter):  # type: ignore[name-defined, misc]
        """Begins from other rows than were saved."""

        def start(self, request: Request, saved: DraftRows | None) -> None:
            super().start(request, saved)
            rows = request.draft_rows
            if saved is not None and rows is not None and request.name in names:
                rows.key[: rows.length] = _other(rows.key[: rows.length])
                rows.value[: rows.length] = _other(rows.value[: rows.length])

    return PoisonedDrafter
