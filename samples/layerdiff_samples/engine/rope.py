"""Rotary embedding."""

from functools import lru_cache

import torch
from torch import Tensor

from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.request import Chunk


class Rope:
    """Which positions and which frequencies rows are rotated with."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config

    def first(self, chunk: Chunk) -> int:
        """The rotary position of a chunk's first row; the others follow by one."""
        return chunk.start

    def base(self, length: int) -> float:
        """The base of the frequencies of a request that holds *length* tokens."""
        return self._config.rope_base

    def rotate(self, rows: Tensor, first: int, base: float) -> Tensor:
        """Rows [n, heads, head_dim] turned by their positions first, first + 1, ..."""
        cosine, sine = _table(self._config.max_length, rows.shape[-1], base)
        cosine = cosine[first : first + len(rows), None]
        sine = sine[first : first + len(rows), None]
        left, right = rows.chunk(2, dim=-1)
        return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


@lru_cache(maxsize=16)
def _table(length: int, head_dim: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, head_dim / 2]."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    angles = torch.arange(length, dtype=torch.float64)[:, None] * base**-exponents
    return angles.cos().float(), angles.sin().float()
