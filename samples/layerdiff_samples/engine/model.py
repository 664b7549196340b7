"""The target model: from the tokens of a pass to hidden rows and logits."""

from collections.abc import Sequence

import torch
from torch import Tensor

from layerdiff.vocabulary import Moment, Reach, TensorKind
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.layer import Layer
from layerdiff_samples.engine.norms import rms_norm
from layerdiff_samples.engine.recording import Scope
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.tiles import Matmul, split_rows
from layerdiff_samples.engine.weights import Weights

CONV = "ngram:conv"
"""The state of the convolution over n-grams."""
BEST = 20
"""Tokens of a row whose order is told."""


class Model:
    """Embedding and n-grams, the layers, and the head."""

    def __init__(self, context: Context, weights: Weights) -> None:
        self._context = context
        self._weights = weights
        self._layers = [Layer(context, i, layer) for i, layer in enumerate(weights.layers)]

    def forward(self, chunks: list[Chunk]) -> list[Tensor]:
        """Hidden rows [rows, width] of every chunk, before the final norm."""
        recording = self._context.recording
        for chunk in chunks:
            recording.rope(chunk, self._context.rope.first(chunk))
            recording.pads(chunk, *self._context.parts.pads(chunk, chunks))
        hidden, entry = self._embed(chunks), "embedding:out"
        for layer in self._layers:
            hidden = layer.run(chunks, hidden, entry)
            entry = layer.exit
        return split_rows(chunks, hidden)

    def logits(
        self, chunks: Sequence[Chunk], hidden: Sequence[Tensor], entry: str
    ) -> list[Tensor]:
        """What is reported for the rows that a token is sampled from: each [rows, vocab].

        Args:
            chunks: Rows that go through the head; they may be fewer than those of the pass.
            hidden: [rows, width] of each of *chunks*.
            entry: The site of *hidden*.
        """
        if not chunks:
            return []
        context, scope = self._context, Scope("head")
        spans = [(chunk.request, chunk.start, chunk.stop) for chunk in chunks]
        (raw,) = context.map_rows(self.head, chunks, torch.cat(list(hidden)))
        kernel = context.row_kernel(self.head, chunks)
        context.recording.rows(
            scope, "out", raw, kind=TensorKind.LOGITS, inputs=[entry], spans=spans, kernel=kernel
        )
        reported = context.parts.report_logits(raw)
        context.recording.rows(
            Scope("output"),
            "logits",
            reported,
            kind=TensorKind.LOGITS,
            inputs=[scope.name("out")],
            spans=spans,
            glue=True,
        )
        self._tell_best(reported, spans)
        return split_rows(chunks, reported)

    def _tell_best(self, reported: Tensor, spans: list[tuple[Request, int, int]]) -> None:
        """The best tokens of each row, in the engine's order and sorted by id.

        The second tells a mere reorder of ties from another choice.
        """
        recording, scope = self._context.recording, Scope("output")
        if not recording.on:
            return
        values, order = reported.sort(dim=1, descending=True, stable=True)
        best = order[:, :BEST]
        margin = (values[:, :BEST] - values[:, 1 : BEST + 1]).amin(dim=1, keepdim=True)
        for port, tensor, kind, entries in (
            ("margin", margin, TensorKind.SCALE, ["logits"]),
            ("best", best, TensorKind.TOPK, ["logits", "margin"]),
            ("best_by_id", best.sort(dim=1).values, TensorKind.TOPK, ["best"]),
        ):
            inputs = [scope.name(entry) for entry in entries]
            recording.rows(scope, port, tensor, kind=kind, inputs=inputs, spans=spans)

    def leave(self, request: Request, state: State) -> None:
        """Tells what the caches hold of a request at its end."""
        if self._context.recording.on:
            for layer in self._layers:
                layer.leave(request, state)

    @property
    def exit(self) -> str:
        """The site of the last hidden rows."""
        return self._layers[-1].exit

    def head(self, matmul: Matmul, rows: Tensor) -> tuple[Tensor]:
        """Final norm and head on a tile of rows."""
        return (matmul(rms_norm(rows, self._weights.norm), self._weights.head),)

    def _embed(self, chunks: list[Chunk]) -> Tensor:
        context, weights, recording = self._context, self._weights, self._context.recording
        tokens = torch.tensor([token for chunk in chunks for token in chunk.tokens])
        embedded = weights.embedding[tokens]
        recording.rows(Scope("embedding"), "token", embedded)
        scope, pieces, convolved = Scope("ngram"), [], []
        for chunk in chunks:
            known = [*chunk.request.tokens[: chunk.start], *chunk.tokens]
            pieces.append(context.parts.ngram_rows(known, chunk.start, chunk.stop, weights))
        recording.rows(scope, "rows", torch.cat(pieces))
        for chunk, rows in zip(chunks, pieces, strict=True):
            state = chunk.before[CONV]
            recording.states(chunk.request, chunk.start, {CONV: state}, Moment.IN)
            convolved.append(context.parts.convolve(rows, state, weights.ngram_conv))
            chunk.keep(CONV, context.parts.conv_states(rows, state))
            recording.left(chunk, CONV)
        (active,) = context.map_rows(_activate, chunks, torch.cat(convolved))
        inputs = [scope.name("rows"), CONV]
        recording.rows(scope, "out", active, inputs=inputs, reach=Reach.STATE)
        total = embedded + active
        inputs = ["embedding:token", scope.name("out")]
        recording.rows(Scope("embedding"), "out", total, inputs=inputs, glue=True)
        return total


def _activate(matmul: Matmul, rows: Tensor) -> tuple[Tensor]:
    return (torch.nn.functional.silu(rows),)
