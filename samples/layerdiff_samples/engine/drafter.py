"""The drafter: one attention layer on the target's hidden rows, which guesses tokens ahead.

Its row at position q is made from the target's hidden row at q - 1 and the token at q, and says
what may follow at q + 1. A row that it makes while drafting starts from its own hidden row
instead: such rows are provisional, and replaced once the target has seen their tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind
from layerdiff_samples.engine.books import book
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.draft_rows import DraftRows
from layerdiff_samples.engine.heads import Heads, Keys
from layerdiff_samples.engine.layer import Ending
from layerdiff_samples.engine.model import Model
from layerdiff_samples.engine.norms import rms_norm
from layerdiff_samples.engine.recording import Scope
from layerdiff_samples.engine.request import Chunk, Request
from layerdiff_samples.engine.tiles import Matmul, split_rows
from layerdiff_samples.engine.weights import Weights


@dataclass(frozen=True, slots=True)
class Kept:
    """What a pass of the target leaves for the drafter."""

    chunk: Chunk
    hidden: Tensor
    """[rows, width] of the chunk."""
    length: int
    """Positions of the request that are computed and kept."""


class Drafter:
    """Keeps its rows up with the target, and drafts."""

    def __init__(self, context: Context, model: Model, weights: Weights) -> None:
        self.context = context
        self._model = model
        self._weights = weights
        self._scope = Scope("drafter", None, "drafter attention", Role.DRAFTER)
        self._heads = Heads(context, self._scope, weights.drafter.layer)
        self._ending = Ending(context, self._scope, weights.drafter.layer)

    def start(self, request: Request, saved: DraftRows | None) -> None:
        """Rows for a request that begins or goes on: those of a checkpoint, or none yet."""
        config = self.context.config
        if saved is not None:
            self.take_over(request, saved.copy(saved.length))
            return
        shape = (config.max_length, config.kv_heads, config.head_dim)
        request.draft_rows = DraftRows(
            torch.zeros(shape), torch.zeros(shape), 0, torch.zeros(config.width)
        )

    def take_over(self, request: Request, rows: DraftRows) -> None:
        """A request goes on from rows that others made."""
        request.draft_rows = rows
        for start, stop, writer in rows.written:
            self.context.recording.event(
                EventKind.KV_READ,
                request=request,
                writer=writer,
                start=start,
                stop=stop,
                text="drafter",
            )

    def keep(self, request: Request, position: int) -> DraftRows | None:
        """A copy of the rows below *position*, for a checkpoint."""
        return None if request.draft_rows is None else request.draft_rows.copy(position)

    def retire(self, request: Request) -> None:
        """A request ends: its rows go."""
        rows = request.draft_rows
        if rows is not None:
            found = (rows.key[: rows.length], rows.value[: rows.length])
            self._heads.found(request, Moment.OUT, 0, *found)
        request.draft_rows = None

    def run(self, kept: Sequence[Kept]) -> None:
        """Takes what the target computed, then drafts for the requests that decode."""
        chunks, sources = [], []
        for part in kept:
            chunk, source = self._take(part)
            if chunk.rows > 0:
                chunks.append(chunk)
                sources.append(source)
        if not chunks:
            return
        hidden = self._pass(chunks, sources, step=0)
        ready = [
            (chunk.request, rows[-1:])
            for chunk, rows in zip(chunks, hidden, strict=True)
            if chunk.request.drafts and chunk.stop == len(chunk.request.tokens)
        ]
        for step in range(1, self.context.config.drafts):
            ready = [(r, h) for r, h in ready if self._wanted(r) > step]
            if not ready:
                return
            chunks = [self._provisional(request, step) for request, _ in ready]
            hidden = self._pass(chunks, [source for _, source in ready], step=step)
            ready = [(r, h) for (r, _), h in zip(ready, hidden, strict=True)]

    def context_rows(self, part: Kept, rows: DraftRows) -> tuple[int, int, Tensor]:
        """From where to where the drafter's context grows, and what each new row starts from."""
        chunk, request = part.chunk, part.chunk.request
        drafting = part.length == len(request.tokens) - 1 and not request.finished
        stop = part.length + 1 if drafting else part.length
        hidden = part.hidden[: part.length - chunk.start]
        sources = torch.cat([rows.anchor[None], hidden])
        start = min(rows.length, stop)
        return start, stop, sources[start - chunk.start : stop - chunk.start]

    def _take(self, part: Kept) -> tuple[Chunk, Tensor]:
        """The chunk of the drafter's context that follows from a pass of the target."""
        request = part.chunk.request
        rows = request.draft_rows
        assert rows is not None
        if rows.steps:
            self.context.recording.event(
                EventKind.TRUNCATE,
                request=request,
                start=rows.length,
                stop=rows.length + rows.steps,
                text="drafter",
            )
            rows.steps = 0
        start, stop, sources = self.context_rows(part, rows)
        rows.anchor = part.hidden[part.length - part.chunk.start - 1].clone()
        tokens = request.tokens[start:stop]
        return Chunk(request, start, stop, Phase.DRAFT, tokens), sources

    def _provisional(self, request: Request, step: int) -> Chunk:
        assert request.draft_rows is not None
        start = request.draft_rows.length - 1 + step
        token = request.drafts[step - 1]
        self.context.recording.drafted(request, [token], start)
        return Chunk(request, start, start + 1, Phase.DRAFT, [token])

    def _wanted(self, request: Request) -> int:
        """Drafts that can still be accepted: the target adds one token by itself."""
        left = request.max_new - len(request.generated)
        return min(self.context.config.drafts, left - 1)

    def _pass(self, chunks: list[Chunk], sources: Sequence[Tensor], *, step: int) -> list[Tensor]:
        """One pass: the drafter's hidden rows; requests that decode get one more draft."""
        mark = _mark(step)
        with self.context.recording.forward_pass(chunks, Phase.DRAFT):
            hidden = self._forward(chunks, torch.cat(list(sources)), step, mark)
            drafting = []
            for chunk, rows in zip(chunks, hidden, strict=True):
                request, known = chunk.request, len(chunk.request.tokens)
                if chunk.stop == known + step and self._wanted(request) > step:
                    last = Chunk(request, chunk.stop - 1, chunk.stop, Phase.DRAFT, [])
                    drafting.append((last, rows[-1:]))
            self._draft(drafting, mark)
        return hidden

    def _forward(self, chunks: list[Chunk], source: Tensor, step: int, mark: str) -> list[Tensor]:
        context, recording, scope = self.context, self.context.recording, self._scope
        tokens = torch.tensor([token for chunk in chunks for token in chunk.tokens])
        embedded = self._weights.embedding[tokens]
        recording.rows(
            scope,
            f"source{mark}",
            source,
            kind=TensorKind.DRAFTER_HIDDEN,
            inputs=[self._source_site(step)],
            reach=Reach.PREFIX,
        )
        recording.rows(
            scope,
            f"token{mark}",
            embedded,
            kind=TensorKind.AUX,
            inputs=[scope.name(f"logits{_mark(step - 1)}")] if step else [],
            reach=Reach.PREFIX,
        )
        (joined,) = context.map_rows(self.join, chunks, source, embedded)
        kernel = context.row_kernel(self.join, chunks)
        inputs = [scope.name(f"source{mark}"), scope.name(f"token{mark}")]
        entry = scope.name(f"joined{mark}")
        kind = TensorKind.DRAFTER_HIDDEN
        recording.rows(scope, f"joined{mark}", joined, kind=kind, inputs=inputs, kernel=kernel)
        projected = self._heads.project(chunks, joined, entry, step=mark)
        outs, at = [], 0
        for chunk in chunks:
            query, key, value = (tensor[at : at + chunk.rows] for tensor in projected)
            outs.append(self._attend(chunk, query, (key, value), step, mark))
            at += chunk.rows
        hidden = self._ending.run(chunks, joined, torch.cat(outs), entry, mark)
        return split_rows(chunks, hidden)

    def _source_site(self, step: int) -> str:
        """What a row starts from: the row one position earlier, of the target or its own."""
        if step == 0:
            return self._model.exit
        return self._scope.name(f"out{_mark(step - 1)}")

    def _attend(
        self, chunk: Chunk, query: Tensor, made: tuple[Tensor, Tensor], step: int, mark: str
    ) -> Tensor:
        rows = chunk.request.draft_rows
        assert rows is not None
        split, start, stop = self.context.config.split, chunk.start, chunk.stop
        cached = (rows.key[: rows.length], rows.value[: rows.length])
        self._heads.found(chunk.request, Moment.IN, 0, *cached)
        self.context.recording.event(
            EventKind.OFFSET,
            request=chunk.request,
            start=start,
            value=rows.length + rows.steps,
            site=self._scope.name("key"),
        )
        rows.key[start:stop], rows.value[start:stop] = made
        self._book(chunk, rows)
        if step:
            rows.steps = step
        else:
            rows.length = stop
        padded = -(-stop // split) * split
        keys = Keys(rows.key[:padded], rows.value[:padded], 0, stop, start)
        before = ["", *(f".step{earlier}" for earlier in range(1, step))] if step else []
        sites = [self._scope.name(f"{p}{m}") for p in ("key", "value") for m in before]
        return self._heads.attend(chunk, query, keys, step=mark, inputs=sites)

    def _book(self, chunk: Chunk, rows: DraftRows) -> None:
        recording, request = self.context.recording, chunk.request
        book(rows.written, chunk.start, chunk.stop, recording.writer(request))
        recording.event(
            EventKind.KV_WRITE,
            request=request,
            start=chunk.start,
            stop=chunk.stop,
            text="drafter",
        )

    def join(self, matmul: Matmul, source: Tensor, embedded: Tensor) -> tuple[Tensor]:
        """A tile of rows from hidden rows and embeddings: [TILE, width]."""
        both = torch.cat([rms_norm(source, self._weights.drafter.norm), embedded], dim=-1)
        return (matmul(both, self._weights.drafter.join),)

    def _draft(self, drafting: Sequence[tuple[Chunk, Tensor]], mark: str) -> None:
        """One draft for each row."""
        if not drafting:
            return
        context, scope = self.context, self._scope
        chunks = [chunk for chunk, _ in drafting]
        (logits,) = context.map_rows(
            self._model.head, chunks, torch.cat([rows for _, rows in drafting])
        )
        context.recording.rows(
            scope,
            f"logits{mark}",
            logits,
            kind=TensorKind.LOGITS,
            inputs=[scope.name(f"out{mark}")],
            spans=[(chunk.request, chunk.start, chunk.stop) for chunk in chunks],
            kernel=context.row_kernel(self._model.head, chunks),
        )
        for chunk, row in zip(chunks, logits, strict=True):
            chunk.request.drafts.append(context.parts.sample(row))


def _mark(step: int) -> str:
    """What stands behind the port in the names of sites of one drafting step."""
    return f".step{step}" if step else ""
