"""Rows that lie where they belong in the pool, or were right once, and are read otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.checkpoints import Checkpoint, Checkpoints
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.request import Request, State
from layerdiff_samples.engine.scheduler import Scheduler
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.faults.fault import Fault


class MirroredTable(BlockPool):
    """Attention reads through a mirror of the block table, as devices keep one.

    The mirror follows blocks that are allocated, and nobody copies those that come with a hit:
    there it still names the blocks of whoever ran before. For one running request.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._mirror: dict[int, int] = {}

    def allocate(self, request: Request) -> None:
        super().allocate(request)
        self._mirror[len(request.table) - 1] = request.table[-1]

    def table_for_kernel(self, request: Request) -> Sequence[int]:
        return tuple(self._mirror[index] for index in range(len(request.table)))


class KeyMajorSlots(StatePool):
    """Keeps recurrent states transposed, and turns them back when they are read."""

    as_stored = False

    def read(self, slot: int) -> State:
        stored = super().read(slot)
        return stored if self.as_stored else _turned(stored)

    def write(self, slot: int, state: Mapping[str, Tensor]) -> None:
        super().write(slot, _turned(state))

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Reads give what lies in memory."""
        self.as_stored = True
        yield
        self.as_stored = False


class RawRestore(Checkpoints):
    """Copies a checkpoint's memory, in whatever order the slots keep it."""

    def restore(self, request: Request, saved: Checkpoint) -> State:
        assert isinstance(self.pool, KeyMajorSlots)
        with self.pool.raw():
            return super().restore(request, saved)


def _turned(state: Mapping[str, Tensor]) -> State:
    return {n: t.mT.contiguous() if n.endswith(":recurrent") else t for n, t in state.items()}


class NarrowOffload(Scheduler):
    """Blocks that are kept for later requests go to the host, in another dtype."""

    dtype = torch.bfloat16

    def drop_blocks(self, request: Request) -> None:
        for index, block in enumerate(request.table):
            if self.cache.published(block) and self.blocks.users[block] == 1:
                self._offload(request, index, block)
        super().drop_blocks(request)

    def _offload(self, request: Request, index: int, block: int) -> None:
        size, name = self.blocks.size, str(self.dtype).removeprefix("torch.")
        for port, pool in (("key", self.blocks.keys), ("value", self.blocks.values)):
            for layer, tensor in pool.items():
                tensor[block] = tensor[block].to(self.dtype).to(tensor.dtype)
                self.blocks.recording.event(
                    EventKind.CAST,
                    request=request,
                    start=index * size,
                    stop=(index + 1) * size,
                    value=1,
                    site=f"layers.{layer}:{port}",
                    text=f"float32->{name}",
                )


class WideOffload(NarrowOffload):
    """The dtype of the host holds every value of the pool."""

    dtype = torch.float64


def _mirrored(parts: Parts) -> Parts:
    return replace(parts, block_pool=MirroredTable)


def _key_major(parts: Parts) -> Parts:
    return replace(parts, state_pool=KeyMajorSlots)


def _raw(parts: Parts) -> Parts:
    return replace(parts, state_pool=KeyMajorSlots, checkpoints=RawRestore)


def _narrow(parts: Parts) -> Parts:
    return replace(parts, scheduler=NarrowOffload)


def _wide(parts: Parts) -> Parts:
    return replace(parts, scheduler=WideOffload)


STALE_TABLE = Fault("stale-table", _mirrored)
KEY_MAJOR = Fault("key-major-slots", _key_major)
RAW_RESTORE = Fault("raw-restore", _raw)
NARROW_OFFLOAD = Fault("narrow-offload", _narrow)
WIDE_OFFLOAD = Fault("wide-offload", _wide)
FAULTS = (STALE_TABLE, KEY_MAJOR, RAW_RESTORE, NARROW_OFFLOAD, WIDE_OFFLOAD)
