"""Normalisation and the MLP, for one tile of rows."""

import torch
from torch import Tensor

from layerdiff_samples.engine.tiles import Matmul
from layerdiff_samples.engine.weights import LayerWeights


def rms_norm(rows: Tensor, weight: Tensor) -> Tensor:
    """Rows [n, size] at unit root mean square, times *weight*."""
    scale = torch.rsqrt((rows * rows).mean(-1, keepdim=True) + 1e-6)
    return rows * scale * weight


def unit_length(rows: Tensor) -> Tensor:
    """Vectors [..., size] at length one; zero vectors stay zero."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + 1e-6)


def gated_mlp(matmul: Matmul, rows: Tensor, layer: LayerWeights) -> Tensor:
    """The MLP of a layer on its normalised input."""
    normed = rms_norm(rows, layer.mlp_norm)
    gate = torch.nn.functional.silu(matmul(normed, layer.gate))
    return matmul(gate * matmul(normed, layer.up), layer.down)
