"""Random weights from a seed."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

import torch
from torch import Tensor

from layerdiff_samples.engine.config import CONV_WIDTH, EngineConfig

HASHED = 64
"""Rows of each table of hashed n-grams."""


@dataclass(frozen=True, slots=True)
class DeltaWeights:
    """A gated delta net."""

    qkv: Tensor
    conv: Tensor
    """[CONV_WIDTH, 3 * heads * head_dim]."""
    beta: Tensor
    gate: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """Grouped-query attention."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """A mixer, an MLP and their norms."""

    norm: Tensor
    mixer: DeltaWeights | AttentionWeights
    mlp_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class DrafterWeights:
    """The drafter: a projection of [hidden, embedding] and one attention layer."""

    norm: Tensor
    join: Tensor
    """[2 * width, width]."""
    layer: LayerWeights


@dataclass(frozen=True, slots=True)
class Weights:
    """The whole model."""

    embedding: Tensor
    bigrams: Tensor
    trigrams: Tensor
    ngram_conv: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor
    drafter: DrafterWeights

    def digest(self) -> str:
        """Hex digest of all tensors."""
        state = hashlib.blake2b(digest_size=8)
        for tensor in _tensors(self):
            state.update(tensor.numpy().tobytes())
        return state.hexdigest()


def make_weights(config: EngineConfig) -> Weights:
    """Weights that make states and cached rows matter for the logits."""
    draw = _Draw(config.seed)
    width = config.width
    return Weights(
        embedding=draw.normal(config.vocab, width, scale=2.0),
        bigrams=draw.normal(HASHED, width, scale=0.5),
        trigrams=draw.normal(HASHED, width, scale=0.5),
        ngram_conv=draw.normal(CONV_WIDTH, width, scale=0.6),
        layers=tuple(_layer(draw, config, kind) for kind in config.layers),
        norm=draw.norm(width),
        head=draw.normal(width, config.vocab, scale=1.6 * width**-0.5),
        drafter=_drafter(draw, config),
    )


def _layer(draw: "_Draw", config: EngineConfig, kind: str) -> LayerWeights:
    width, hidden = config.width, 2 * config.width
    mixer = _delta(draw, config) if kind == "g" else _attention(draw, config)
    return LayerWeights(
        norm=draw.norm(width),
        mixer=mixer,
        mlp_norm=draw.norm(width),
        gate=draw.matrix(width, hidden),
        up=draw.matrix(width, hidden),
        down=draw.matrix(hidden, width),
    )


def _drafter(draw: "_Draw", config: EngineConfig) -> DrafterWeights:
    """Leans on the token's embedding, as the target does, so that some drafts are accepted."""
    width = config.width
    join = torch.cat([0.3 * draw.matrix(width, width), torch.eye(width)])
    layer = _layer(draw, config, "a")
    return DrafterWeights(draw.norm(width), join, layer)


def _delta(draw: "_Draw", config: EngineConfig) -> DeltaWeights:
    size = config.heads * config.head_dim
    return DeltaWeights(
        qkv=draw.matrix(config.width, 3 * size),
        conv=draw.normal(CONV_WIDTH, 3 * size, scale=0.7),
        beta=draw.matrix(config.width, config.heads),
        gate=draw.matrix(config.width, config.heads),
        out=draw.normal(size, config.width, scale=2.0 * size**-0.5),
    )


def _attention(draw: "_Draw", config: EngineConfig) -> AttentionWeights:
    size, kv_size = config.heads * config.head_dim, config.kv_heads * config.head_dim
    return AttentionWeights(
        query=draw.normal(config.width, size, scale=1.5 * config.width**-0.5),
        key=draw.normal(config.width, kv_size, scale=1.5 * config.width**-0.5),
        value=draw.matrix(config.width, kv_size),
        out=draw.normal(size, config.width, scale=1.5 * size**-0.5),
    )


class _Draw:
    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float) -> Tensor:
        return torch.randn(*shape, generator=self._generator) * scale

    def matrix(self, rows: int, columns: int) -> Tensor:
        return self.normal(rows, columns, scale=rows**-0.5)

    def norm(self, size: int) -> Tensor:
        return 1.0 + self.normal(size, scale=0.1)


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _tensors(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name))
