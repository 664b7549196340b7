"""Which blocks of keys a query reads: the first, the previous, its own, and the best others."""

from dataclasses import dataclass

import torch
from torch import Tensor

from layerdiff_samples.engine.config import TILE
from layerdiff_samples.engine.tiles import pad_rows, pads_of

NO_CONTEST = 1e9
"""The margin where nothing was left out."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The choice of each query."""

    scores: Tensor
    """[rows, blocks of the longest request]; zeros where a block was no candidate."""
    candidates: Tensor
    """[rows, blocks] of bool."""
    chosen: Tensor
    """[rows, topk] of int64 in order of score, -1 where there were fewer candidates."""
    margin: Tensor
    """[rows, 1]: by how much the last one taken beat the first one left out."""

    def reads(self, start: int, split: int) -> Tensor:
        """[rows, blocks] of bool: what the queries at start, start + 1, ... read."""
        own = torch.arange(start, start + len(self.scores))[:, None] // split
        blocks = torch.arange(self.scores.shape[1])[None, :]
        reads = (blocks == 0) | (blocks == own) | (blocks == own - 1)
        taken = (self.chosen[:, :, None] == blocks[None]).any(1)
        return reads | taken


def score_blocks(
    query: Tensor, key: Tensor, *, start: int, split: int, blocks: int
) -> tuple[Tensor, Tensor]:
    """Scores [rows, blocks] of query times mean key, and which blocks are candidates.

    Args:
        query: [rows, heads, head_dim], row 0 at position *start*.
        key: [keys, kv_heads, head_dim], a multiple of *split*.
    """
    rows = len(query)
    before, after = pads_of(start, start + rows)
    padded = pad_rows(query, before, after)
    scores = padded.new_zeros(len(padded), blocks)
    for block in range(1, max(1, (start + rows - 1) // split - 1)):
        mean = key[block * split : (block + 1) * split].mean(0)
        mean = mean.repeat_interleave(query.shape[1] // key.shape[1], dim=0)
        for at in range(0, len(padded), TILE):
            scores[at : at + TILE, block] = (padded[at : at + TILE] * mean).flatten(1).sum(-1)
    own = torch.arange(start, start + rows)[:, None] // split
    number = torch.arange(blocks)[None, :]
    candidates = (number >= 1) & (number < own - 1)
    return torch.where(candidates, scores[before : before + rows], 0.0), candidates


def select_blocks(scores: Tensor, candidates: Tensor, topk: int) -> tuple[Tensor, Tensor]:
    """The best *topk* candidates of each row and the margin; of equal scores the lower index."""
    ranked = scores.masked_fill(~candidates, -torch.inf)
    values, order = torch.sort(ranked, dim=1, descending=True, stable=True)
    chosen = torch.where(values[:, :topk].isinf(), -1, order[:, :topk])
    margin = values[:, topk - 1 : topk] - values[:, topk : topk + 1]
    return chosen, torch.where(margin.isfinite(), margin, NO_CONTEST)
