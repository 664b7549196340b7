"""The gated delta net layer."""

import torch
from torch import Tensor

from layerdiff.vocabulary import Moment, Reach, TensorKind
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.launch import launch_of, name_of
from layerdiff_samples.engine.norms import rms_norm, unit_length
from layerdiff_samples.engine.recording import Scope, digest_memory
from layerdiff_samples.engine.recurrent import Recurred, RecurrentKernel, Rows
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.state_sites import RECURRENT_INPUTS
from layerdiff_samples.engine.tiles import Matmul, split_rows
from layerdiff_samples.engine.weights import DeltaWeights, LayerWeights


class DeltaMixer:
    """Projections, a short convolution, and the gated delta rule."""

    def __init__(self, context: Context, scope: Scope, layer: LayerWeights) -> None:
        assert isinstance(layer.mixer, DeltaWeights)
        self._context = context
        self._scope = scope
        self._norm = layer.norm
        self._weights = layer.mixer
        self._heads = (context.config.heads, context.config.head_dim)

    def run(self, chunks: list[Chunk], hidden: Tensor, entry: str) -> Tensor:
        """[rows, heads, head_dim] for the rows of a pass; *entry* is the site of *hidden*."""
        context, scope, recording = self._context, self._scope, self._context.recording
        mixed, decay, beta = context.map_rows(self.project, chunks, hidden)
        kernel = context.row_kernel(self.project, chunks)
        for port, tensor in (("projected", mixed), ("decay", decay), ("beta", beta)):
            recording.rows(scope, port, tensor, inputs=[entry], kernel=kernel)
        pieces = zip(chunks, split_rows(chunks, mixed), strict=True)
        convolved = torch.cat([self._convolve(c, r) for c, r in pieces])
        states = [scope.name("projected"), scope.name("conv_state")]
        kernel = recording.kernel(
            name_of(context.parts.convolve), context.parts.convolve, mode="eager"
        )
        recording.rows(
            scope, "convolved", convolved, inputs=states, reach=Reach.STATE, kernel=kernel
        )
        query, key, value = context.map_rows(self.split, chunks, convolved)
        rows = Rows(query, key, value, decay, beta)
        for port, tensor in zip(RECURRENT_INPUTS[:3], rows[:3], strict=True):
            recording.rows(
                scope, port, tensor, inputs=[scope.name("convolved")], kind=TensorKind.AUX
            )
        outs, at = [], 0
        for chunk in chunks:
            outs.append(self._recur(chunk, rows.between(at, at + chunk.rows)))
            at += chunk.rows
        return torch.cat(outs)

    def leave(self, request: Request, state: State) -> None:
        """Nothing: every pass tells what it leaves of the states."""

    def project(self, matmul: Matmul, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value before the convolution; decay and beta, for a tile of rows."""
        normed = rms_norm(rows, self._norm)
        decay = -torch.nn.functional.softplus(matmul(normed, self._weights.gate) - 3.0)
        beta = torch.sigmoid(matmul(normed, self._weights.beta))
        return matmul(normed, self._weights.qkv), decay, beta

    def split(self, matmul: Matmul, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value [rows, heads, head_dim] after the convolution."""
        active = torch.nn.functional.silu(rows)
        query, key, value = (part.reshape(-1, *self._heads) for part in active.chunk(3, dim=-1))
        return unit_length(query), unit_length(key), value

    def _convolve(self, chunk: Chunk, rows: Tensor) -> Tensor:
        name, parts = self._scope.name("conv_state"), self._context.parts
        state = chunk.before[name]
        recording = self._context.recording
        recording.states(chunk.request, chunk.start, {name: state}, Moment.IN)
        out = parts.convolve(rows, state, self._weights.conv)
        chunk.keep(name, parts.conv_states(rows, state))
        recording.left(chunk, name)
        return out

    def _recur(self, chunk: Chunk, rows: Rows) -> Tensor:
        name = self._scope.name("recurrent")
        kernel = self._context.parts.choose_recurrent(
            launch_of(chunk, self._context.config.drafts)
        )
        state = chunk.before[name]
        found = kernel.run(rows, state, self._context.config.chunk)
        chunk.keep(name, found.states)
        self._tell(chunk, kernel, found, name, state)
        return found.out

    def _tell(
        self, chunk: Chunk, kernel: RecurrentKernel, found: Recurred, name: str, state: Tensor
    ) -> None:
        recording, scope = self._context.recording, self._scope
        if not recording.on:
            return
        slack = "" if found.slack is None else digest_memory(found.slack)
        number = recording.kernel(
            kernel.name,
            kernel.run,
            mode=kernel.mode,
            chunk=self._context.config.chunk,
            dtype=str(state.dtype).removeprefix("torch."),
            stride=list(state.stride()),
            slack=slack,
        )
        request = chunk.request
        recording.states(request, chunk.start, {name: state}, Moment.IN, number)
        inputs = [scope.name(port) for port in RECURRENT_INPUTS]
        recording.rows(
            scope,
            "mixed",
            found.out,
            inputs=[*inputs, name],
            reach=Reach.STATE,
            kind=TensorKind.ATTENTION_OUT,
            spans=[(request, chunk.start, chunk.stop)],
            kernel=number,
        )
        recording.left(chunk, name, number)
