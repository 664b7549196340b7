"""What every part of the model is given: sizes, replaceable parts, and the recording."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.launch import name_of
from layerdiff_samples.engine.masks import CausalMask
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Chunk
from layerdiff_samples.engine.rope import Rope
from layerdiff_samples.engine.tiles import MatmulChoice, RowFunction, always_tiled, by_rows

if TYPE_CHECKING:
    from layerdiff_samples.engine.parts import Parts


@dataclass(frozen=True, slots=True)
class Context:
    """An engine's parts as the model uses them."""

    config: EngineConfig
    parts: "Parts"
    blocks: BlockPool
    rope: Rope
    mask: CausalMask
    recording: Recording

    @property
    def projections(self) -> MatmulChoice:
        """Which kernel projects how many rows."""
        if self.config.projection == "by_rows":
            return by_rows(self.config.wide_rows)
        return always_tiled

    def map_rows(
        self, function: RowFunction, chunks: Sequence[Chunk], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """A function of single rows on all rows of a pass; see `tiles.map_rows`."""
        return self.parts.map_rows(function, self.projections, chunks, tensors)

    def row_kernel(self, function: RowFunction, chunks: Sequence[Chunk]) -> int:
        """The kernel id of a row-wise launch."""
        if not self.recording.on:
            return 0
        names = [name_of(self.projections(chunk.rows)) for chunk in chunks]
        return self.recording.kernel(
            name_of(function), function, mode="eager", projection=sorted(set(names))
        )
