"""One decoder layer: a mixer, its output projection, the MLP, and the residual stream."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.delta import DeltaMixer
from layerdiff_samples.engine.norms import gated_mlp
from layerdiff_samples.engine.paged import PagedMixer
from layerdiff_samples.engine.recording import Scope
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.sliding import SlidingMixer
from layerdiff_samples.engine.state_sites import LAYER_KINDS
from layerdiff_samples.engine.tiles import Matmul
from layerdiff_samples.engine.weights import LayerWeights

_MIXERS: dict[str, Callable[[Context, Scope, LayerWeights], "Mixer"]] = {
    "g": DeltaMixer,
    "a": PagedMixer,
    "s": SlidingMixer,
}


class Mixer(Protocol):
    """What mixes the tokens of a request in one layer."""

    def run(self, chunks: list[Chunk], hidden: Tensor, entry: str) -> Tensor:
        """[rows, heads, head_dim] for the rows of a pass; *entry* is the site of *hidden*."""
        ...

    def leave(self, request: Request, state: State) -> None:
        """Tells what the layer's cache holds of a request at its end."""
        ...


class Ending:
    """What follows the mixer in a layer."""

    def __init__(self, context: Context, scope: Scope, weights: LayerWeights) -> None:
        self._context = context
        self._scope = scope
        self._weights = weights

    def run(
        self, chunks: list[Chunk], hidden: Tensor, mixed: Tensor, entry: str, step: str = ""
    ) -> Tensor:
        """The layer's output [rows, width]; *entry* is the site of its input *hidden*."""
        context, scope = self._context, self._scope
        outs = context.map_rows(self.finish, chunks, hidden, mixed)
        kernel = context.row_kernel(self.finish, chunks)
        projected = scope.name(f"projected_out{step}")
        mlp = scope.name(f"mlp_out{step}")
        for port, tensor, inputs in (
            ("projected_out", outs[0], [scope.name(f"mixed{step}")]),
            ("mlp_out", outs[1], [entry, projected]),
            ("out", outs[2], [entry, projected, mlp]),
        ):
            context.recording.rows(
                scope, port + step, tensor, inputs=inputs, kernel=kernel, glue=port == "out"
            )
        return outs[2]

    def finish(
        self, matmul: Matmul, hidden: Tensor, mixed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The projected mixer output, the MLP's output, and their sum with the residual."""
        projected = matmul(mixed.reshape(len(mixed), -1), self._weights.mixer.out)
        middle = hidden + projected
        mlp = gated_mlp(matmul, middle, self._weights)
        return projected, mlp, middle + mlp


class Layer:
    """A layer of the target model."""

    def __init__(self, context: Context, index: int, weights: LayerWeights) -> None:
        kind = context.config.layers[index]
        self._scope = Scope(f"layers.{index}", index, LAYER_KINDS[kind])
        self._mixer = _MIXERS[kind](context, self._scope, weights)
        self._ending = Ending(context, self._scope, weights)

    @property
    def exit(self) -> str:
        """The site of the layer's output."""
        return self._scope.name("out")

    def run(self, chunks: list[Chunk], hidden: Tensor, entry: str) -> Tensor:
        """The layer's output [rows, width]; *entry* is the site of *hidden*."""
        mixed = self._mixer.run(chunks, hidden, entry)
        return self._ending.run(chunks, hidden, mixed, entry)

    def leave(self, request: Request, state: State) -> None:
        """Tells what the layer's cache holds of a request at its end."""
        self._mixer.leave(request, state)
