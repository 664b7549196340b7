"""Arithmetic that depends on the pass: rotation, mask, merge, batch mates, graphs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from layerdiff.vocabulary import Phase
from layerdiff_samples.engine.attention import (
    AttentionKernel,
    Partial,
    choose_attention,
    merge_partials,
)
from layerdiff_samples.engine.config import TILE
from layerdiff_samples.engine.launch import Launch
from layerdiff_samples.engine.masks import CausalMask, MaskFacts
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.request import Chunk
from layerdiff_samples.engine.rope import Rope
from layerdiff_samples.engine.tiles import (
    Matmul,
    MatmulChoice,
    RowFunction,
    map_rows,
    pad_rows,
    split_rows,
)
from layerdiff_samples.faults.fault import Fault

LONG = 64
"""Tokens above which long-text frequencies are used."""


class RestartingRope(Rope):
    """Counts positions from the end of the hit."""

    def first(self, chunk: Chunk) -> int:
        return chunk.start - chunk.request.hit


class PassLocalRope(Rope):
    """Counts the positions of a prompt from the start of each pass."""

    def first(self, chunk: Chunk) -> int:
        return 0 if chunk.prompt_part else chunk.start


class StretchingRope(Rope):
    """Takes other frequencies once a request holds more tokens than the model was trained on."""

    def base(self, length: int) -> float:
        return super().base(length) * (4.0 if length > LONG else 1.0)


class TopLeftMask(CausalMask):
    """Anchors the diagonal of a prefill at the corner of queries and keys.

    Right for a chunk without anything before it; any other one misses its latest keys.
    """

    def allow(self, queries: Tensor, keys: Tensor, facts: MaskFacts) -> Tensor:
        if _at_corner(facts):
            queries = queries - facts.start
        return super().allow(queries, keys, facts)

    def describe(self, facts: MaskFacts) -> dict[str, object]:
        known = super().describe(facts)
        return {**known, "anchor": "chunk"} if _at_corner(facts) else known


def _at_corner(facts: MaskFacts) -> bool:
    return facts.phase is Phase.PREFILL and facts.start > 0


class CachedMerge:
    """Merges the partials of a request with a cached part by powers of two.

    The log-sum-exps are natural logarithms.
    """

    def __init__(self, choose: Callable[[Launch], AttentionKernel]) -> None:
        self._choose = choose
        self._cached = False

    def choose_attention(self, launch: Launch) -> AttentionKernel:
        """Notes what the next partials belong to."""
        self._cached = launch.hit > 0
        return self._choose(launch)

    def merge_partials(self, partials: Sequence[Partial]) -> Partial:
        """As the engine's own; a cached part brings the wrong base."""
        if not self._cached:
            return merge_partials(partials)
        scaled = [(out, total * math.log(2)) for out, total in partials]
        return merge_partials(scaled)


def several_graph(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Partial:
    """As `several`, with the products along the head summed in two halves."""
    half = query.shape[-1] // 2
    scores = sum(
        query[..., part].transpose(0, 1) @ key[..., part].permute(1, 2, 0).contiguous()
        for part in (slice(0, half), slice(half, None))
    )
    assert isinstance(scores, Tensor)
    scores = (scores * query.shape[-1] ** -0.5).masked_fill(~allowed, -torch.inf)
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top.isinf(), 0.0, top)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True)
    out = (weights @ value.transpose(0, 1).contiguous()) / torch.where(total == 0, 1.0, total)
    return out.transpose(0, 1).contiguous(), (total.log() + top)[..., 0].T.contiguous()


def choose_graph(launch: Launch) -> AttentionKernel:
    """A request with a hit replays a captured graph for its prompt."""
    if launch.hit and launch.prompt_part:
        return AttentionKernel(several_graph, TILE, mode="graph")
    return choose_attention(launch)


def map_packed_rows(
    function: RowFunction,
    choose: MatmulChoice,
    chunks: Sequence[Chunk],
    tensors: Sequence[Tensor],
) -> tuple[Tensor, ...]:
    """As the engine's own; but single rows, of whichever requests, share one tile.

    Its activations are rounded to a number of steps of the tile's largest value.
    """
    single = [index for index, chunk in enumerate(chunks) if chunk.rows == 1][:TILE]
    if not single:
        return map_rows(function, choose, chunks, tensors)
    split = [split_rows(chunks, tensor) for tensor in tensors]
    packed = [torch.cat([rows[i] for i in single]) for rows in split]
    shared = function(
        _coarse(choose(1)), *(pad_rows(rows, 0, TILE - len(single)) for rows in packed)
    )
    found: list[tuple[Tensor, ...]] = []
    for index, chunk in enumerate(chunks):
        if index in single:
            at = single.index(index)
            found.append(tuple(out[at : at + 1] for out in shared))
        else:
            found.append(map_rows(function, choose, [chunk], [rows[index] for rows in split]))
    return tuple(torch.cat(column) for column in zip(*found, strict=True))


def _coarse(matmul: Matmul) -> Matmul:
    def scaled(rows: Tensor, weight: Tensor) -> Tensor:
        scale = rows.abs().amax().clamp_min(1e-9) / 2**15
        return matmul((rows / scale).round() * scale, weight)

    return scaled


def _rope(kind: type[Rope]) -> Callable[[Parts], Parts]:
    return lambda parts: replace(parts, rope=kind)


def _mask(parts: Parts) -> Parts:
    return replace(parts, mask=TopLeftMask)


def _merge(parts: Parts) -> Parts:
    own = CachedMerge(parts.choose_attention)
    return replace(parts, choose_attention=own.choose_attention, merge_partials=own.merge_partials)


def _graph(parts: Parts) -> Parts:
    return replace(parts, choose_attention=choose_graph)


def _packed(parts: Parts) -> Parts:
    return replace(parts, map_rows=map_packed_rows)


ROPE_RESTARTS = Fault("rope-restarts", _rope(RestartingRope))
ROPE_BY_PASS = Fault("rope-by-pass", _rope(PassLocalRope))
ROPE_STRETCHES = Fault("rope-stretches", _rope(StretchingRope))
TOP_LEFT_MASK = Fault("top-left-mask", _mask)
WRONG_BASE = Fault("wrong-base", _merge)
GRAPH_AFTER_HIT = Fault("graph-after-hit", _graph)
SHARED_TILE = Fault("shared-tile", _packed)
FAULTS = (
    *(ROPE_RESTARTS, ROPE_BY_PASS, ROPE_STRETCHES, TOP_LEFT_MASK, WRONG_BASE),
    *(GRAPH_AFTER_HIT, SHARED_TILE),
)
