"""The arms of the prefix experiment: one prompt computed cold, split, repeated and reused."""

import copy
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path

import torch
from torch import nn

from layerdiff_hooks import record

Chunks = Sequence[tuple[int, int]]


def run_chunks(model: nn.Module, tokens: torch.Tensor, chunks: Chunks) -> object:
    """One forward pass for each chunk of the prompt on one cache; returns the cache."""
    cache = None
    for start, stop in chunks:
        cache = forward(model, tokens[:, start:stop], cache)
    return cache


def forward(model: nn.Module, tokens: torch.Tensor, cache: object) -> object:
    """One pass on a cache, which newer transformers call ``cache``; returns the cache."""
    name = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
    return getattr(model(tokens, **{name: cache}, use_cache=True), name)


def cold(
    model: nn.Module,
    tokens: torch.Tensor,
    path: Path,
    arm: str = "cold",
    *,
    chunks: Chunks | None = None,
) -> None:
    """The whole prompt in one pass, or in the chunks given; a dump that is there is replaced."""
    with (
        record(model, path, arm=arm, overwrite=True) as recorder,
        recorder.request("r1", tokens),
    ):
        run_chunks(model, tokens, chunks or [(0, tokens.shape[1])])


def cold_split(model: nn.Module, tokens: torch.Tensor, prefix: int, path: Path) -> None:
    """The warm arm's chunks, one after the other, without reuse."""
    cold(model, tokens, path, "cold-split", chunks=[(0, prefix), (prefix, tokens.shape[1])])


def warm(
    model: nn.Module,
    tokens: torch.Tensor,
    prefix: int,
    path: Path,
    arm: str = "warm",
    between: Callable[[object], None] | None = None,
    *,
    reused: int | None = None,
) -> None:
    """One request fills a cache, another takes a copy of it over and computes the rest.

    Args:
        between: What happens to the copy before it is reused.
        reused: Tokens that are taken over: all of the prefix, or 0 to decline.
    """
    hit = prefix if reused is None else reused
    with record(model, path, arm=arm, overwrite=True) as recorder:
        with recorder.request("fill", tokens[:, :prefix]):
            cache = run_chunks(model, tokens, [(0, prefix)])
        taken = copy.deepcopy(cache) if hit else None
        if between is not None and taken is not None:
            between(taken)
        with recorder.request("r1", tokens):
            forward(model, tokens[:, hit:], taken)
