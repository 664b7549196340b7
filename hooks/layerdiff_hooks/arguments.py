"""What modules are given and return: tokens, caches, the tensor that matters."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn

from layerdiff_hooks.caches import kv

Arguments: TypeAlias = tuple[Any, ...]
Keywords: TypeAlias = dict[str, Any]


class Visit(NamedTuple):
    """One call of a module."""

    module: nn.Module
    args: Arguments
    kwargs: Keywords
    output: Any = None

    @property
    def input(self) -> torch.Tensor | None:
        """The main input."""
        values = (*self.args, self.kwargs.get("hidden_states"), *self.kwargs.values())
        return next((v for v in values if isinstance(v, torch.Tensor)), None)

    @property
    def main(self) -> torch.Tensor | None:
        """The main output."""
        return first_tensor(self.output)

    @property
    def second(self) -> torch.Tensor | None:
        """The second output, where there is one."""
        outputs: Any = self.output if isinstance(self.output, tuple | list) else ()
        second = outputs[1] if len(outputs) > 1 else None
        return second if isinstance(second, torch.Tensor) else None


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a forward that say which tokens go through it."""

    ids: torch.Tensor | None
    """[batch, width]."""
    embeds: torch.Tensor | None
    """[batch, width, size]; only where there are no ids."""
    named: dict[str, Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Batch and columns."""
        source = self.ids if self.ids is not None else self.embeds
        assert source is not None
        return source.shape[0], source.shape[1]


@lru_cache(maxsize=64)
def _parameters(kind: Any) -> tuple[str, ...]:
    """Names of a forward's parameters, without ``self``."""
    return tuple(inspect.signature(kind.forward).parameters)[1:]


def read_arguments(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Given | None:
    """What a forward was given; None when nothing of it is a row of tokens."""
    kind: Any = type(module)
    names = _parameters(kind)
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    ids, embeds = named.get("input_ids"), named.get("inputs_embeds")
    if ids is None and embeds is None:
        values = (*args, *kwargs.values())
        ids = next((v for v in values if isinstance(v, torch.Tensor)), None)
    if isinstance(ids, torch.Tensor) and ids.is_floating_point():
        ids, embeds = None, ids
    if isinstance(ids, torch.Tensor):
        ids = ids[None] if ids.ndim == 1 else ids
        return Given(ids, None, named) if ids.ndim == 2 and ids.numel() else None
    if isinstance(embeds, torch.Tensor):
        embeds = embeds[None] if embeds.ndim == 2 else embeds
        return Given(None, embeds, named) if embeds.ndim == 3 and embeds.numel() else None
    return None


def find_cache(args: Iterable[Any], kwargs: Keywords) -> Any:
    """The first cache among a module's arguments."""
    return next((v for v in (*kwargs.values(), *args) if kv.is_cache(v)), None)


def first_tensor(output: Any) -> torch.Tensor | None:
    """A module's main output: itself, or the first of a tuple."""
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, dict):
        return first_tensor(next(iter(output.values()), None))
    if isinstance(output, tuple | list) and output:
        return first_tensor(output[0])
    return None
