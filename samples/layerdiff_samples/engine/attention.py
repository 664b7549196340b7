"""Attention over fixed splits of the keys: two kernels of different arithmetic, and the merge."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from layerdiff.vocabulary import Phase
from layerdiff_samples.engine.config import TILE
from layerdiff_samples.engine.launch import Launch, name_of
from layerdiff_samples.engine.tiles import pad_rows, pads_of

Partial: TypeAlias = tuple[Tensor, Tensor]
"""Output [queries, heads, head_dim] and log-sum-exp [queries, heads] over the keys of one split.

A query that sees no key of the split has zeros and minus infinity.
"""
Merge: TypeAlias = Callable[[Sequence[Partial]], Partial]


@dataclass(frozen=True, slots=True)
class AttentionKernel:
    """One way to compute a partial."""

    partial: Callable[[Tensor, Tensor, Tensor, Tensor], Partial]
    """(queries [unit, heads, head_dim], keys and values [split, heads, head_dim], allowed
    [unit, split]) -> partial."""
    unit: int
    """Queries of a launch, aligned on position."""
    mode: str = "eager"

    @property
    def name(self) -> str:
        """The function's name."""
        return name_of(self.partial)


@dataclass(frozen=True, slots=True)
class Attended:
    """What a chunk's queries got, before and after the merge."""

    out: Tensor
    """[rows, heads, head_dim]."""
    partials: Tensor
    """[rows, splits, heads, head_dim + 1]: outputs and log-sum-exp, zeros where nothing is seen;
    split i covers keys [i * split, (i + 1) * split) of those given."""


def several(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Partial:
    """A tile of queries at once, by matrix products."""
    scores = query.transpose(0, 1) @ key.permute(1, 2, 0).contiguous()
    weights, total, top = _exponents(scores * query.shape[-1] ** -0.5, allowed)
    out = (weights @ value.transpose(0, 1).contiguous()) / torch.where(total == 0, 1.0, total)
    return out.transpose(0, 1).contiguous(), (total.log() + top)[..., 0].T.contiguous()


def one_query(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Partial:
    """One query, by products summed along the head: other rounding than `several`."""
    products = query.transpose(0, 1)[:, :, None] * key.transpose(0, 1)[:, None]
    half = query.shape[-1] // 2
    scores = products[..., :half].sum(-1) + products[..., half:].sum(-1)
    weights, total, top = _exponents(scores * query.shape[-1] ** -0.5, allowed)
    weighted = weights[..., None] * value.transpose(0, 1)[:, None]
    out = weighted.sum(2) / torch.where(total == 0, 1.0, total)
    return out.transpose(0, 1).contiguous(), (total.log() + top)[..., 0].T.contiguous()


SEVERAL = AttentionKernel(several, TILE)
ONE_QUERY = AttentionKernel(one_query, 1)


def choose_attention(launch: Launch) -> AttentionKernel:
    """By what the rows are for, never by how many there are."""
    decoding = launch.phase in (Phase.DECODE, Phase.REPLAY) and not launch.prompt_part
    return ONE_QUERY if decoding and not launch.drafting else SEVERAL


def merge_partials(partials: Sequence[Partial]) -> Partial:
    """Partials merged one after the other; one without any key changes no bit."""
    out, total = partials[0]
    for more, more_total in partials[1:]:
        top = torch.maximum(total, more_total)
        top = torch.where(top.isinf(), 0.0, top)
        left, right = (total - top).exp(), (more_total - top).exp()
        both = left + right
        scale = torch.where(both == 0, 1.0, both)[..., None]
        out = (out * left[..., None] + more * right[..., None]) / scale
        total = both.log() + top
    return out, total


def attend(
    kernel: AttentionKernel,
    merge: Merge,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    start: int,
    allowed: Tensor,
    split: int,
) -> Attended:
    """Attention of one chunk.

    Args:
        query: [rows, heads, head_dim], row 0 at position *start*.
        key: [keys, kv_heads, head_dim], a multiple of *split* on the absolute grid.
        value: As *key*.
        allowed: [rows, keys].
    """
    rows, groups = len(query), query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    before, after = pads_of(start, start + rows, kernel.unit)
    query, allowed = (pad_rows(t, before, after) for t in (query, allowed))
    outs, partials = [], []
    for at in range(0, len(query), kernel.unit):
        here = slice(at, at + kernel.unit)
        found: dict[int, Partial] = {}
        for number, first in enumerate(range(0, len(key), split)):
            keys, seen = slice(first, first + split), allowed[here, first : first + split]
            if seen.any():
                found[number] = kernel.partial(query[here], key[keys], value[keys], seen)
        outs.append(merge(list(found.values()))[0] if found else torch.zeros_like(query[here]))
        partials.append(_stack(found, len(key) // split, outs[-1]))
    kept = slice(before, before + rows)
    return Attended(torch.cat(outs)[kept], torch.cat(partials)[kept])


def _exponents(scores: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights before normalisation [heads, queries, keys], their sums and the maxima."""
    scores = scores.masked_fill(~allowed, -torch.inf)
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top.isinf(), 0.0, top)
    weights = (scores - top).exp()
    return weights, weights.sum(-1, keepdim=True), top


def _stack(found: dict[int, Partial], splits: int, like: Tensor) -> Tensor:
    """Partials by split [queries, splits, heads, head_dim + 1]."""
    queries, heads, size = like.shape
    whole = like.new_zeros(queries, splits, heads, size + 1)
    for number, (out, total) in found.items():
        whole[:, number, :, :size] = out
        whole[:, number, :, size] = torch.where(total.isinf(), 0.0, total)
    return whole
