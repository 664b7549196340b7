"""The attention layer whose keys lie in blocks; queries select which of them they read."""

import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind, Moment, Reach, TensorKind
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.heads import Heads, Keys
from layerdiff_samples.engine.launch import name_of
from layerdiff_samples.engine.recording import Scope
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.selection import Selection, score_blocks
from layerdiff_samples.engine.weights import LayerWeights


class PagedMixer:
    """Grouped-query attention over the block pool."""

    def __init__(self, context: Context, scope: Scope, layer: LayerWeights) -> None:
        assert scope.layer_index is not None
        self._context = context
        self._scope = scope
        self._layer = scope.layer_index
        self._heads = Heads(context, scope, layer)

    def run(self, chunks: list[Chunk], hidden: Tensor, entry: str) -> Tensor:
        """[rows, heads, head_dim] for the rows of a pass; *entry* is the site of *hidden*."""
        projected = self._heads.project(chunks, hidden, entry)
        outs, at = [], 0
        for chunk in chunks:
            query, key, value = (tensor[at : at + chunk.rows] for tensor in projected)
            outs.append(self._attend(chunk, query, key, value))
            at += chunk.rows
        return torch.cat(outs)

    def _attend(self, chunk: Chunk, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        pool, request = self._context.blocks, chunk.request
        start = request.kv_length
        length = start + chunk.rows
        pool.write(request, self._layer, start, key, value)
        table = pool.table_for_kernel(request)
        padded = -(-length // self._context.config.split) * self._context.config.split
        keys, values = (tensor[:padded] for tensor in pool.read(table, self._layer))
        held = max(start, min(length, pool.write_floor(request)))
        self._heads.found(request, Moment.IN, 0, keys[:held], values[:held])
        self._context.recording.event(
            EventKind.OFFSET,
            request=request,
            start=chunk.start,
            value=start,
            site=self._scope.name("key"),
        )
        selection = self._select(query, keys, start)
        self._tell(chunk, selection)
        return self._heads.attend(
            chunk,
            query,
            Keys(keys, values, 0, length, start, table=table),
            reads=selection.reads(start, self._context.config.split)[:, : padded // self._split],
            inputs=[self._scope.name("topk")],
        )

    def leave(self, request: Request, state: State) -> None:
        """Tells what the cache holds of a request at its end."""
        pool = self._context.blocks
        found = pool.read(pool.table_for_kernel(request), self._layer)
        rows = (tensor[: request.kv_length] for tensor in found)
        self._heads.found(request, Moment.OUT, 0, *rows)

    @property
    def _split(self) -> int:
        return self._context.config.split

    def _select(self, query: Tensor, keys: Tensor, start: int) -> Selection:
        config = self._context.config
        scores, candidates = score_blocks(
            query, keys, start=start, split=config.split, blocks=config.max_length // config.split
        )
        chosen, margin = self._context.parts.select_blocks(scores, candidates, config.topk)
        return Selection(scores, candidates, chosen, margin)

    def _tell(self, chunk: Chunk, selection: Selection) -> None:
        context, scope = self._context, self._scope
        spans = [(chunk.request, chunk.start, chunk.stop)]
        kernel = context.recording.kernel("score_blocks", score_blocks, mode="eager")
        context.recording.rows(
            scope,
            "scores",
            selection.scores,
            kind=TensorKind.AUX,
            inputs=[scope.name("query"), scope.name("key")],
            reach=Reach.PREFIX,
            spans=spans,
            kernel=kernel,
        )
        select = context.parts.select_blocks
        kernel = context.recording.kernel(
            name_of(select),
            select,
            mode="eager",
            topk=context.config.topk,
        )
        scores, margin = scope.name("scores"), scope.name("margin")
        for port, tensor, kind, inputs in (
            ("margin", selection.margin, TensorKind.SCALE, [scores]),
            ("topk", selection.chosen, TensorKind.TOPK, [scores, margin]),
        ):
            context.recording.rows(
                scope, port, tensor, kind=kind, inputs=inputs, spans=spans, kernel=kernel
            )
