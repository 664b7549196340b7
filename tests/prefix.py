"""The prefix experiment: one prompt cold and on a reused cache, and its truth by raw tensors."""

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from layerdiff_hooks import record
from layerdiff_samples.arms import forward
from layerdiff_samples.tiny import prompt, tiny_hybrid

LENGTH = 200
PREFIXES = (64, 70, 96, 128, 150, 190, 197, 198, 199)


class Experiment:
    """One model and prompt, recorded under every arm into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model: Any = tiny_hybrid()
        self.tokens = prompt(LENGTH)

    def layer_rows(self, chunks: list[tuple[int, int]]) -> list[torch.Tensor]:
        """Output rows [200, 64] of every decoder layer, by absolute position."""
        rows: list[list[torch.Tensor]] = [[] for _ in self.model.model.layers]

        def keep(index: int) -> Callable[[nn.Module, Any, Any], None]:
            def hook(module: nn.Module, args: Any, output: Any) -> None:
                hidden = output[0] if isinstance(output, tuple) else output
                rows[index].append(hidden[0].clone())

            return hook

        handles = [
            layer.register_forward_hook(keep(index))
            for index, layer in enumerate(self.model.model.layers)
        ]
        cache: object = None
        for start, stop in chunks:
            cache = forward(self.model, self.tokens[:, start:stop], copy.deepcopy(cache))
        for handle in handles:
            handle.remove()
        return [torch.cat(parts) for parts in rows]

    def truth(self, prefix: int) -> tuple[int, int] | None:
        """First layer, and first token in it, whose rows differ; None where all agree."""
        cold = self.layer_rows([(0, LENGTH)])
        warm = self.layer_rows([(0, prefix), (prefix, LENGTH)])
        for layer, (a, b) in enumerate(zip(cold, warm, strict=True)):
            differs = (a != b).any(-1).nonzero()
            if len(differs):
                return layer, int(differs[0])
        return None

    def cold(self) -> Path:
        """One pass."""
        return self._chunks("cold", [(0, LENGTH)])

    def cold_split(self, prefix: int) -> Path:
        """The warm arm's chunks without reuse."""
        return self._chunks("cold-split", [(0, prefix), (prefix, LENGTH)])

    def _chunks(self, arm: str, chunks: list[tuple[int, int]]) -> Path:
        path = self._path(arm)
        with record(self.model, path, arm=arm) as recorder, recorder.request("r1", self.tokens):
            cache: object = None
            for start, stop in chunks:
                cache = forward(self.model, self.tokens[:, start:stop], cache)
        return path

    def warm(
        self,
        prefix: int,
        between: Callable[[Any], None] | None = None,
        *,
        through_disk: bool = False,
        from_reuse_on: bool = False,
    ) -> Path:
        """A request fills the cache, another takes a copy over.

        Args:
            between: What happens to the copy.
            through_disk: The copy is saved and loaded instead.
            from_reuse_on: The fill is not recorded.
        """
        path = self._path("warm")
        cache: object = None
        if from_reuse_on:
            cache = forward(self.model, self.tokens[:, :prefix], None)
        with record(self.model, path, arm="warm") as recorder:
            if not from_reuse_on:
                with recorder.request("fill", self.tokens[:, :prefix]):
                    cache = forward(self.model, self.tokens[:, :prefix], None)
            reused = _through_disk(cache) if through_disk else copy.deepcopy(cache)
            if between is not None:
                between(reused)
            with recorder.request("r1", self.tokens):
                forward(self.model, self.tokens[:, prefix:], reused)
        return path

    def _path(self, arm: str) -> Path:
        number = len(list(self.folder.iterdir()))
        return self.folder / f"{arm}-{number}.h5"


def _through_disk(cache: object) -> object:
    file = io.BytesIO()
    torch.save(cache, file)
    file.seek(0)
    return torch.load(file, weights_only=False)
