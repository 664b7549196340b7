"""The replaceable parts of an engine: a class or a function for each noun."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from layerdiff_samples.engine import (
    attention,
    convolution,
    ngram,
    recurrent,
    sampler,
    selection,
    tiles,
)
from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.checkpoints import Checkpoints
from layerdiff_samples.engine.drafter import Drafter
from layerdiff_samples.engine.launch import Launch
from layerdiff_samples.engine.masks import CausalMask
from layerdiff_samples.engine.prefix_cache import PrefixCache
from layerdiff_samples.engine.request import Chunk
from layerdiff_samples.engine.rope import Rope
from layerdiff_samples.engine.scheduler import Scheduler
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.engine.weights import Weights

MapRows: TypeAlias = Callable[
    [tiles.RowFunction, tiles.MatmulChoice, Sequence[Chunk], Sequence[Tensor]],
    tuple[Tensor, ...],
]


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine is put together from; every field can be replaced by itself."""

    scheduler: type[Scheduler] = Scheduler
    block_pool: type[BlockPool] = BlockPool
    state_pool: type[StatePool] = StatePool
    prefix_cache: type[PrefixCache] = PrefixCache
    checkpoints: type[Checkpoints] = Checkpoints
    rope: type[Rope] = Rope
    mask: type[CausalMask] = CausalMask
    drafter: type[Drafter] = Drafter
    map_rows: MapRows = tiles.map_rows
    pads: Callable[[Chunk, Sequence[Chunk]], tuple[int, int]] = tiles.no_pads
    """(chunk, chunks of its pass) -> empty rows before and after it."""
    ngram_rows: Callable[[Sequence[int], int, int, Weights], Tensor] = ngram.ngram_rows
    convolve: Callable[[Tensor, Tensor, Tensor], Tensor] = convolution.convolve
    conv_states: Callable[[Tensor, Tensor], Sequence[Tensor]] = convolution.conv_states
    choose_recurrent: Callable[[Launch], recurrent.RecurrentKernel] = recurrent.choose_recurrent
    choose_attention: Callable[[Launch], attention.AttentionKernel] = attention.choose_attention
    select_blocks: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] = selection.select_blocks
    merge_partials: attention.Merge = attention.merge_partials
    report_logits: Callable[[Tensor], Tensor] = sampler.report_logits
    sample: Callable[[Tensor], int] = sampler.sample
