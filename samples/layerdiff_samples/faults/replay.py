"""What a request that goes on from a checkpoint computes in another way than a cold one."""

from collections import deque
from dataclasses import replace

import torch
from torch import Tensor

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.launch import Launch
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import Hit, PrefixCache
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.recurrent import (
    SEQUENTIAL,
    Recurred,
    RecurrentKernel,
    Rows,
    choose_recurrent,
    chunk_form,
)
from layerdiff_samples.engine.request import Request
from layerdiff_samples.engine.scheduler import Scheduler
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.faults.fault import Fault

TAIL = 4
"""Tokens that the last split before a prompt's end is a multiple of."""


def tail_split(length: int) -> int:
    """Where the tail of a prompt of *length* tokens is split off."""
    return (length - 1) // TAIL * TAIL - TAIL


class TailSplit(Scheduler):
    """Ends a pass shortly before the prompt's end, to leave a state there for a later request.

    It does so only while caching is on, and not on the grid on which the recurrent kernel counts
    its chunks: what follows is computed in other chunks than without a cache.
    """

    def chunk_end(self, request: Request, start: int, budget: int) -> int:
        split = tail_split(len(request.prompt))
        if self.config.caching and start == split:
            return min(len(request.prompt), start + budget)
        stop = super().chunk_end(request, start, budget)
        return min(stop, split) if self.config.caching and start < split else stop


class KeptRows(BlockPool):
    """Leaves rows that came with a hit as they are, though they are computed once more."""

    def __init__(self, config: EngineConfig, recording: Recording) -> None:
        super().__init__(config, recording)
        self.kept: dict[Request, int] = {}
        """Rows by request."""

    def write_floor(self, request: Request) -> int:
        return self.kept.get(request, 0)


class MatchedRows(PrefixCache):
    """Serves blocks beyond the last checkpoint, whatever passes they are made of.

    The states are replayed from the checkpoint on; the rows of those blocks stay the earlier
    request's, in whose chunks they were computed.
    """

    def lookup(self, request: Request) -> Hit:
        hit = super().lookup(request)
        keys = self.keys(request.prompt)[len(hit.blocks) : hit.possible // self.config.block]
        more = [self.entries[key] for key in keys]
        if hit.length and more and isinstance(self.blocks, KeptRows):
            self.blocks.kept[request] = hit.possible
        else:
            more = []
        return replace(
            hit,
            blocks=(*hit.blocks, *(entry.block for entry in more)),
            writers=(*hit.writers, *(entry.writer for entry in more)),
        )

    def publishable(self, request: Request, stop: int) -> int:
        return min(stop, len(request.prompt)) // self.config.block


class Compacting(StatePool):
    """Moves the last running state into a slot that became free, and hands that slot out again.

    It takes the lowest free slot first. The one that was filled by a move stays on the list, so
    the next to ask for a slot shares it with the request that was moved.
    """

    def __init__(self, config: EngineConfig, recording: Recording) -> None:
        super().__init__(config, recording)
        self._asked: list[Request] = []

    def allocate(self, request: Request) -> int:
        self._asked.append(request)
        return super().allocate(request)

    def free(self, slot: int, kind: EventKind = EventKind.FREE) -> None:
        super().free(slot, kind)
        running = [r for r in self._asked if r.slot is not None and slot < r.slot]
        if kind is EventKind.FREE and running:
            self._move(max(running, key=lambda request: request.slot or 0), slot)
        self._free = deque(sorted(self._free))

    def _move(self, request: Request, place: int) -> None:
        old = request.slot
        assert old is not None
        self.write(place, self.read(old))
        request.slot = place
        self._free.append(old)
        self.recording.event(
            EventKind.MOVE,
            request=request,
            place=old,
            value=place,
            generation=self.generation[place],
            text="state",
        )


class Stage:
    """Where the rows of the last, partial chunk are put together; nothing clears it."""

    def __init__(self) -> None:
        self.rows: Rows | None = None

    def clear(self) -> None:
        """Zeros, as in memory that is fresh."""
        self.rows = None

    def fill(self, group: Rows, size: int) -> Rows:
        """A whole chunk: *group*, and behind it what an earlier call left."""
        if self.rows is None:
            self.rows = Rows(*(torch.zeros(size, *t.shape[1:]) for t in group))
        for held, came in zip(self.rows, group, strict=True):
            held[: len(came)] = came
        return Rows(*(held.clone() for held in self.rows))


STAGE = Stage()
"""One for all layers; an engine that is built begins with an empty one."""


def staged(rows: Rows, state: Tensor, chunk: int) -> Recurred:
    """As `chunked`, with outputs in sixteen bits and one scale for each chunk.

    The scale is taken over all values of a chunk, and of the last one over rows behind its tokens
    too: those of an earlier call. The state does not see them.
    """
    outs: list[Tensor] = []
    slack = None
    for at in range(0, len(rows.query), chunk):
        group = rows.between(at, at + chunk)
        count = len(group.query)
        whole = group if count == chunk else STAGE.fill(group, chunk)
        if count < chunk:
            slack = torch.cat([tensor[count:].flatten() for tensor in whole])
        out, state = chunk_form(group.padded(chunk), state)
        step = whole.value.square().mean().sqrt() * 2.0**-14
        outs.append((out[:count] / step).round() * step)
    return Recurred(torch.cat(outs), [state], slack)


def sequential_after_hit(launch: Launch) -> RecurrentKernel:
    """Prompts go token by token once a prefix was restored, and in chunks before."""
    if launch.prompt_part and launch.hit:
        return SEQUENTIAL
    return choose_recurrent(launch)


class NeverFound(PrefixCache):
    """Looks up, and never finds anything."""

    def lookup(self, request: Request) -> Hit:
        return Hit()


def _tail_split(parts: Parts) -> Parts:
    return replace(parts, scheduler=TailSplit)


def _kept_rows(parts: Parts) -> Parts:
    matched = type(MatchedRows.__name__, (MatchedRows, parts.prefix_cache), {})
    return replace(parts, prefix_cache=matched, block_pool=KeptRows)


def _sequential(parts: Parts) -> Parts:
    return replace(parts, choose_recurrent=sequential_after_hit)


def _compaction(parts: Parts) -> Parts:
    return replace(parts, state_pool=Compacting)


def _staged(parts: Parts) -> Parts:
    STAGE.clear()
    kernel = RecurrentKernel(staged)

    def choose(launch: Launch) -> RecurrentKernel:
        return kernel if launch.prompt_part else choose_recurrent(launch)

    return replace(parts, choose_recurrent=choose)


def _never_found(parts: Parts) -> Parts:
    return replace(parts, prefix_cache=NeverFound)


TAIL_SPLIT = Fault("tail-split", _tail_split)
KV_FLOOR = Fault("kv-floor", _kept_rows)
SEQUENTIAL_AFTER_HIT = Fault("kernel-mismatch", _sequential)
SLOT_COMPACTION = Fault("slot-compaction", _compaction)
STALE_CHUNK_ROWS = Fault("stale-chunk-rows", _staged, zero_slack=STAGE.clear)
NEVER_WARM = Fault("never-warm", _never_found)

FAULTS = (
    TAIL_SPLIT,
    KV_FLOOR,
    SEQUENTIAL_AFTER_HIT,
    SLOT_COMPACTION,
    STALE_CHUNK_ROWS,
    NEVER_WARM,
)
