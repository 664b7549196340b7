"""What an engine is built from: the shape of its model and the sizes of its pools."""

from dataclasses import asdict, dataclass
from typing import Literal

TILE = 8
"""Rows of one row-wise launch; position p lies in slot p % TILE."""
CONV_WIDTH = 4
"""Taps of every causal convolution; its state is the last CONV_WIDTH - 1 inputs."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything an engine needs to know.

    Raises:
        ValueError: Sizes that do not fit together.
    """

    layers: str = "ggag"
    """One letter a layer: g gated delta net, a paged attention, s sliding window."""
    width: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    vocab: int = 128
    seed: int = 0
    block: int = 16
    """Tokens of one cache block."""
    chunk: int = 8
    """Tokens of one chunk of the chunked recurrent kernel."""
    stride: int | None = None
    """Prefill passes end at multiples of this; the block size by default."""
    split: int = 8
    """Keys of one attention split, and of one block that queries select."""
    topk: int = 2
    """Selected blocks, beside the first, the previous and the own one."""
    window: int = 16
    """Keys that a query of a sliding layer sees, its own included."""
    drafts: int = 3
    """Drafted tokens a step; 0 turns speculative decoding off."""
    caching: bool = True
    budget: int = 64
    """Tokens of one step, all requests together."""
    max_running: int = 4
    blocks: int = 64
    slots: int = 64
    """State slots, for running requests and checkpoints together."""
    max_length: int = 256
    projection: Literal["tiled", "by_rows"] = "tiled"
    wide_rows: int = 24
    """With ``by_rows``: from how many rows of a chunk the wide kernel runs."""
    rope_base: float = 10000.0

    def __post_init__(self) -> None:
        if not self.layers or set(self.layers) - set("gas"):
            raise ValueError(f"layers are spelled with g, a and s, not {self.layers!r}")
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise ValueError("heads must be a multiple of kv_heads, and head_dim even")
        if self.block % self.split or self.max_length % self.block:
            raise ValueError("block must be a multiple of split, max_length one of block")
        if self.prefill_stride % self.chunk:
            raise ValueError("stride must be a multiple of chunk")

    @property
    def prefill_stride(self) -> int:
        """Where prefill passes end."""
        return self.stride or self.block

    @property
    def ring(self) -> int:
        """Rows of a sliding layer's ring: a rejected draft must not overwrite the window."""
        return self.window + self.drafts + 1

    def architecture(self) -> dict[str, object]:
        """The part that says which function the model computes."""
        return {name: value for name, value in asdict(self).items() if name in _ARCHITECTURE}


_ARCHITECTURE = frozenset(
    {
        *("layers", "width", "heads", "kv_heads", "head_dim", "vocab"),
        *("split", "topk", "window", "rope_base"),
    }
)
