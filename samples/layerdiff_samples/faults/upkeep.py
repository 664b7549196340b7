"""States and rows that are not kept up: saved, moved on, rolled back or loaded in a wrong way."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.checkpoints import Checkpoint, Checkpoints
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.convolution import conv_states
from layerdiff_samples.engine.launch import Launch
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import Hit, PrefixCache
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.recurrent import (
    Recurred,
    RecurrentKernel,
    Rows,
    choose_recurrent,
    chunked,
)
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.faults.fault import Fault

WEAK_SLOT = 3
"""The slot in which a bit does not stay: the third checkpoint of a fresh engine's request."""


class NeighbourSlots(Checkpoints):
    """Looks a checkpoint up one entry beside its own, in the list of those of its writer."""

    step = 0

    def __init__(self, pool: StatePool, recording: Recording) -> None:
        super().__init__(pool, recording)
        self._saved: list[Checkpoint] = []

    def save(self, request: Request, position: int, state: State) -> Checkpoint:
        saved = super().save(request, position, state)
        self._saved.append(saved)
        return saved

    def slot_to_read(self, saved: Checkpoint) -> int:
        own = [s for s in self._saved if s.writer.request == saved.writer.request]
        at = own.index(saved) + self.step
        return own[at].slot if 0 <= at < len(own) else saved.slot


class EarlierSlots(NeighbourSlots):
    """One block too early, where there is an earlier one."""

    step = -1


class LaterSlots(NeighbourSlots):
    """One block too late, where there is a later one."""

    step = 1


class WeakSlot(Checkpoints):
    """One slot of the pool loses a bit once it was written."""

    def save(self, request: Request, position: int, state: State) -> Checkpoint:
        saved = super().save(request, position, state)
        if saved.slot == WEAK_SLOT:
            held = self.pool.tensors["layers.0:recurrent"][saved.slot]
            held.view(torch.int32)[0, 0, 0] ^= 1 << 22
        return saved


class LastStates(Checkpoints):
    """Keeps the state behind all drafts where requests that took a prefix over reject some."""

    def rollback(self, chunk: Chunk, kept: int) -> State:
        return chunk.after[chunk.stop] if chunk.request.hit else super().rollback(chunk, kept)


class LastingRows(BlockPool):
    """Does not forget rejected rows of requests that took a prefix over."""

    def truncate(self, request: Request, length: int) -> None:
        if not request.hit:
            super().truncate(request, length)


class ShuffledRows(PrefixCache):
    """Loads a block's rows in another order: the even ones first, then the odd ones."""

    def take(self, hit: Hit) -> None:
        super().take(hit)
        for pool in (self.blocks.keys, self.blocks.values):
            for rows in pool.values():
                for block in hit.blocks:
                    rows[block] = torch.cat([rows[block, ::2], rows[block, 1::2]])


class StrangeOrder(BlockPool):
    """Keeps a block's rows in another order, and reads them by it: nobody can tell."""

    def write(self, request: Request, layer: int, start: int, key: Tensor, value: Tensor) -> None:
        for row, at in enumerate(range(start, start + len(key))):
            block, slot = request.table[at // self.size], self.size - 1 - at % self.size
            self.keys[layer][block, slot] = key[row]
            self.values[layer][block, slot] = value[row]

    def read(self, table: Sequence[int], layer: int) -> tuple[Tensor, Tensor]:
        index = torch.tensor(table)
        keys, values = (pool[layer][index].flip(1) for pool in (self.keys, self.values))
        return keys.flatten(0, 1), values.flatten(0, 1)


class LastingEntries(PrefixCache):
    """Evicts a block, and leaves its entry: a later request finds what others wrote into it."""

    def __init__(self, config: EngineConfig, blocks: BlockPool, checkpoints: Checkpoints) -> None:
        super().__init__(config, blocks, checkpoints)
        self._evicted: set[str] = set()

    def evict_block(self) -> bool:
        idle = [
            (entry.used, -entry.depth, key)
            for key, entry in self.entries.items()
            if not self.blocks.users[entry.block] and key not in self._evicted
        ]
        if not idle:
            return False
        key = min(idle)[2]
        self._evicted.add(key)
        self.blocks.evict(self.entries[key].block)
        return True


class BatchPads:
    """Pads every chunk to the longest of its pass; the convolution's state is taken behind them.

    It holds one pass at a time: the number of rows of its longest chunk.
    """

    def __init__(self) -> None:
        self.longest = 0

    def pads(self, chunk: Chunk, chunks: Sequence[Chunk]) -> tuple[int, int]:
        """Pad rows around a chunk."""
        self.longest = max(other.rows for other in chunks)
        return 0, self.longest - chunk.rows

    def conv_states(self, rows: Tensor, state: Tensor) -> Sequence[Tensor]:
        """The state after each row, the last one after the pads too."""
        found = list(conv_states(rows, state))
        if len(rows) < self.longest:
            empty = rows.new_zeros(self.longest - len(rows), rows.shape[1])
            found[-1] = conv_states(torch.cat([rows, empty]), state)[-1]
        return found


def chunked_anew(rows: Rows, state: Tensor, chunk: int) -> Recurred:
    """As `chunked`, from an empty state whatever it was given."""
    return chunked(rows, torch.zeros_like(state), chunk)


def chunked_aside(rows: Rows, state: Tensor, chunk: int) -> Recurred:
    """As `chunked`; the state is given back as it came."""
    return chunked(rows, state, chunk)._replace(states=[state])


def anew_behind_the_start(launch: Launch) -> RecurrentKernel:
    """Takes every pass over a prompt for its first one."""
    if launch.prompt_part and launch.start:
        return RecurrentKernel(chunked_anew)
    return choose_recurrent(launch)


def aside_after_hit(launch: Launch) -> RecurrentKernel:
    """Works on a copy of the state in the pass that follows a hit."""
    if launch.prompt_part and launch.hit and launch.first:
        return RecurrentKernel(chunked_aside)
    return choose_recurrent(launch)


def _batch_pads(parts: Parts) -> Parts:
    pads = BatchPads()
    return replace(parts, pads=pads.pads, conv_states=pads.conv_states)


def _checkpoints(kind: type[Checkpoints]) -> Callable[[Parts], Parts]:
    return lambda parts: replace(parts, checkpoints=kind)


def _block_pool(kind: type[BlockPool]) -> Callable[[Parts], Parts]:
    return lambda parts: replace(parts, block_pool=kind)


def _prefix_cache(kind: type[PrefixCache]) -> Callable[[Parts], Parts]:
    return lambda parts: replace(parts, prefix_cache=kind)


def _recurrent(choose: Callable[[Launch], RecurrentKernel]) -> Callable[[Parts], Parts]:
    return lambda parts: replace(parts, choose_recurrent=choose)


EARLY_STATE = Fault("early-state", _checkpoints(EarlierSlots))
LATE_STATE = Fault("late-state", _checkpoints(LaterSlots))
WEAK_BIT = Fault("weak-bit", _checkpoints(WeakSlot))
STATE_ROLLBACK_MISSING = Fault("state-rollback-missing", _checkpoints(LastStates))
KV_ROLLBACK_MISSING = Fault("kv-rollback-missing", _block_pool(LastingRows))
SHUFFLED_ROWS = Fault("shuffled-rows", _prefix_cache(ShuffledRows))
STRANGE_ORDER = Fault("strange-order", _block_pool(StrangeOrder))
LASTING_ENTRIES = Fault("lasting-entries", _prefix_cache(LastingEntries))
BATCH_PADS = Fault("batch-pads", _batch_pads)
STATE_IGNORED = Fault("state-ignored", _recurrent(anew_behind_the_start))
STATE_NOT_WRITTEN = Fault("state-not-written", _recurrent(aside_after_hit))

FAULTS = (
    EARLY_STATE,
    LATE_STATE,
    WEAK_BIT,
    STATE_ROLLBACK_MISSING,
    KV_ROLLBACK_MISSING,
    SHUFFLED_ROWS,
    STRANGE_ORDER,
    LASTING_ENTRIES,
    BATCH_PADS,
    STATE_IGNORED,
    STATE_NOT_WRITTEN,
)
