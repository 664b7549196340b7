"""What all attention layers share: projections, rotation, and telling what was attended."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from layerdiff.vocabulary import Moment, Reach, TensorKind
from layerdiff_samples.engine.attention import Attended, AttentionKernel, attend
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.launch import launch_of, name_of
from layerdiff_samples.engine.masks import MaskFacts, cache_rows
from layerdiff_samples.engine.norms import rms_norm
from layerdiff_samples.engine.recording import Scope, digest_memory
from layerdiff_samples.engine.request import Chunk, Request
from layerdiff_samples.engine.tiles import Matmul
from layerdiff_samples.engine.weights import AttentionWeights, LayerWeights


@dataclass(frozen=True, slots=True)
class Keys:
    """What the queries of one chunk attend to."""

    key: Tensor
    """[rows, kv_heads, head_dim], a multiple of the split size from row *first* on."""
    value: Tensor
    first: int
    """Row of the cache at which they begin."""
    length: int
    """Rows of the cache that are owned; what lies behind is slack."""
    start: int
    """Row of the cache of the chunk's first key."""
    window: int | None = None
    table: Sequence[int] | None = None


class Heads:
    """The attention of one layer, apart from where its keys are kept."""

    def __init__(self, context: Context, scope: Scope, layer: LayerWeights) -> None:
        assert isinstance(layer.mixer, AttentionWeights)
        self.context = context
        self.scope = scope
        self._norm = layer.norm
        self._weights = layer.mixer

    def project(
        self, chunks: Sequence[Chunk], hidden: Tensor, entry: str, *, step: str = ""
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values: each [rows, heads, head_dim].

        Args:
            entry: The site of *hidden*.
            step: Behind the port in the names of sites.
        """
        context, recording = self.context, self.context.recording
        query, key, value = context.map_rows(self._project, chunks, hidden)
        rope, turned, at = context.rope, [], 0
        for chunk in chunks:
            rows = slice(at, at + chunk.rows)
            first, base = rope.first(chunk), rope.base(chunk.stop)
            turned.append([rope.rotate(t[rows], first, base) for t in (query, key)])
            at += chunk.rows
        query, key = (torch.cat(column) for column in zip(*turned, strict=True))
        bases = sorted({rope.base(chunk.stop) for chunk in chunks})
        kernel = recording.kernel("rotate", type(rope).rotate, mode="eager", rope_base=bases)
        plain = context.row_kernel(self._project, chunks)
        for port, tensor, kind, made in (
            ("query", query, TensorKind.QUERY, kernel),
            ("key", key, self.key_kind, kernel),
            ("value", value, self.value_kind, plain),
        ):
            recording.rows(self.scope, port + step, tensor, kind=kind, inputs=[entry], kernel=made)
        return query, key, value

    @property
    def key_kind(self) -> TensorKind:
        """The kind of this layer's keys."""
        return TensorKind.KV_KEY if self.scope.role.word == "target" else TensorKind.DRAFTER_KEY

    @property
    def value_kind(self) -> TensorKind:
        """The kind of this layer's values."""
        target = self.scope.role.word == "target"
        return TensorKind.KV_VALUE if target else TensorKind.DRAFTER_VALUE

    def found(
        self, request: Request, moment: Moment, start: int, key: Tensor, value: Tensor
    ) -> None:
        """Tells what lies in the cache from row *start* on: key and value [n, ...]."""
        spans = [(request, start, start + len(key))]
        for port, tensor, kind in (
            ("key", key, self.key_kind),
            ("value", value, self.value_kind),
        ):
            self.context.recording.rows(
                self.scope, port, tensor, kind=kind, moment=moment, spans=spans
            )

    def attend(
        self,
        chunk: Chunk,
        query: Tensor,
        keys: Keys,
        *,
        reads: Tensor | None = None,
        step: str = "",
        inputs: Sequence[str] = (),
    ) -> Tensor:
        """Attention [rows, heads, head_dim] of one chunk.

        Args:
            reads: [rows, splits] of bool: which splits a query reads; None for all.
            inputs: Sites that it depends on beside query, key and value.
        """
        context, config = self.context, self.context.config
        facts = MaskFacts(keys.start, chunk.rows, keys.window, chunk.request.hit, chunk.phase)
        queries = cache_rows(keys.start, chunk.rows)
        allowed = context.mask.allow(queries, cache_rows(keys.first, len(keys.key)), facts)
        if reads is not None:
            allowed = allowed & reads.repeat_interleave(config.split, dim=1)
        kernel = context.parts.choose_attention(launch_of(chunk, config.drafts))
        found = attend(
            kernel,
            context.parts.merge_partials,
            query,
            keys.key,
            keys.value,
            start=chunk.start,
            allowed=allowed,
            split=config.split,
        )
        if context.recording.on:
            self._tell(chunk, keys, kernel, facts, found, step, inputs)
        return found.out

    def _project(self, matmul: Matmul, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        normed, size = rms_norm(rows, self._norm), self.context.config.head_dim
        weights = (self._weights.query, self._weights.key, self._weights.value)
        query, key, value = (matmul(normed, w).reshape(len(rows), -1, size) for w in weights)
        return query, key, value

    def _tell(
        self,
        chunk: Chunk,
        keys: Keys,
        kernel: AttentionKernel,
        facts: MaskFacts,
        found: Attended,
        step: str,
        inputs: Sequence[str],
    ) -> None:
        context, scope, recording = self.context, self.scope, self.context.recording
        splits = len(keys.key) // context.config.split
        table = {} if keys.table is None else {"block_table": list(keys.table)}
        slack = keys.key[keys.length - keys.first :], keys.value[keys.length - keys.first :]
        number = recording.kernel(
            kernel.name,
            kernel.partial,
            mode=kernel.mode,
            mask=context.mask.describe(facts),
            rope_base=context.rope.base(chunk.stop),
            splits=splits,
            kv_len=keys.length,
            tile=kernel.unit,
            dtype=str(keys.key.dtype).removeprefix("torch."),
            stride=list(keys.key.stride()),
            **({"slack": digest_memory(torch.stack(slack))} if len(slack[0]) else {}),
            **table,
        )
        spans = [(chunk.request, chunk.start, chunk.stop)]
        cached = [scope.name(port + step) for port in ("query", "key", "value")]
        recording.rows(
            scope,
            f"partials{step}",
            _on_grid(found.partials, keys.first, context),
            kind=TensorKind.AUX,
            inputs=[*dict.fromkeys([*cached, *inputs])],
            reach=Reach.PREFIX,
            spans=spans,
            kernel=number,
        )
        merge = context.parts.merge_partials
        recording.rows(
            scope,
            f"mixed{step}",
            found.out,
            kind=TensorKind.ATTENTION_OUT,
            inputs=[scope.name(f"partials{step}")],
            spans=spans,
            kernel=recording.kernel(name_of(merge), merge, mode="eager", splits=splits),
        )


def _on_grid(partials: Tensor, first: int, context: Context) -> Tensor:
    """Partials [rows, splits of the longest request, ...]: a split at its absolute place."""
    split = context.config.split
    whole = partials.new_zeros(
        len(partials), context.config.max_length // split, *partials.shape[2:]
    )
    at = first // split
    whole[:, at : at + partials.shape[1]] = partials
    return whole
