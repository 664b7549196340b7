"""A short causal convolution along the tokens of one request, with its state."""

from collections.abc import Sequence

import torch
from torch import Tensor

from layerdiff_samples.engine.config import CONV_WIDTH


def convolve(rows: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    """Every row with the CONV_WIDTH - 1 rows before it.

    Products and sums are separate operations, each rounded by itself, so the number of rows
    cannot change a bit.

    Args:
        rows: [n, channels].
        state: [CONV_WIDTH - 1, channels], the inputs before the first row.
        weight: [CONV_WIDTH, channels].
    """
    extended = torch.cat([state, rows])
    total = extended[: len(rows)] * weight[0]
    for tap in range(1, CONV_WIDTH):
        total = total + extended[tap : tap + len(rows)] * weight[tap]
    return total


def conv_states(rows: Tensor, state: Tensor) -> Sequence[Tensor]:
    """The state after each row, each [CONV_WIDTH - 1, channels]."""
    extended = torch.cat([state, rows])
    return [extended[at : at + CONV_WIDTH - 1].clone() for at in range(1, len(rows) + 1)]
