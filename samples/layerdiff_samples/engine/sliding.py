"""The attention layer with a window, whose keys lie in a ring."""

import torch
from torch import Tensor

from layerdiff.vocabulary import Moment
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.heads import Heads, Keys
from layerdiff_samples.engine.recording import Scope
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.tiles import pad_rows
from layerdiff_samples.engine.weights import LayerWeights


class SlidingMixer:
    """Grouped-query attention to the last rows; position p lies in row p % ring."""

    def __init__(self, context: Context, scope: Scope, layer: LayerWeights) -> None:
        self._context = context
        self._names = (scope.name("ring_key"), scope.name("ring_value"))
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
        config, start = self._context.config, chunk.start
        seen = max(0, start - config.window + 1)
        first = seen // config.split * config.split
        after = -chunk.stop % config.split
        both = []
        for name, rows in zip(self._names, (key, value), strict=True):
            ring = chunk.before[name]
            both.append(pad_rows(torch.cat([ring_rows(ring, first, start), rows]), 0, after))
            chunk.keep(name, [_written(ring, start, rows)] * chunk.rows)
        keys, values = both
        cached = slice(seen - first, start - first)
        self._heads.found(chunk.request, Moment.IN, seen, keys[cached], values[cached])
        return self._heads.attend(
            chunk, query, Keys(keys, values, first, chunk.stop, start, window=config.window)
        )

    def leave(self, request: Request, state: State) -> None:
        """Tells what the ring holds of a request at its end."""
        start = max(0, request.computed - self._context.config.window)
        rows = (ring_rows(state[name], start, request.computed) for name in self._names)
        self._heads.found(request, Moment.OUT, start, *rows)


def ring_rows(ring: Tensor, start: int, stop: int) -> Tensor:
    """Rows [start, stop) out of a ring, in order of position."""
    return ring[torch.arange(start, stop) % len(ring)]


def _written(ring: Tensor, start: int, rows: Tensor) -> Tensor:
    """The ring after *rows* came in at *start*; only the last ones fit."""
    kept = rows[-len(ring) :]
    stop = start + len(rows)
    written = ring.clone()
    written[torch.arange(stop - len(kept), stop) % len(ring)] = kept
    return written
