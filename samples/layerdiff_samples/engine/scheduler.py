"""Which tokens of which requests go through the next pass."""

from collections import deque

from layerdiff.vocabulary import Phase
from layerdiff_samples.engine.block_pool import BlockPool
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.prefix_cache import PrefixCache
from layerdiff_samples.engine.request import Chunk, Request


class CapacityError(ValueError):
    """A request that does not fit into the pools even alone."""


class Scheduler:
    """Waiting and running requests; decoding goes first, then prefill within the budget."""

    def __init__(self, config: EngineConfig, blocks: BlockPool, cache: PrefixCache) -> None:
        self.config = config
        self.blocks = blocks
        self.cache = cache
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        """In order of admission: the last one is the first to be preempted."""
        self.preempted: list[Request] = []
        """Those that the last plan pushed out."""

    def admissible(self) -> Request | None:
        """The next request that may start, if there is room for its prompt."""
        if not self.waiting or len(self.running) >= self.config.max_running:
            return None
        room = self.blocks.free_blocks + self.cache.evictable()
        needed = -(-len(self.waiting[0].tokens) // self.config.block) + 1
        if self.running and room < needed:
            return None
        return self.waiting.popleft()

    def plan(self) -> list[Chunk]:
        """The chunks of the next pass, with a block for each of their rows."""
        self.preempted = []
        budget = self.config.budget
        planned: list[Chunk] = []
        decoding = [r for r in self.running if r.computed >= len(r.prompt)]
        prefilling = [r for r in self.running if r.computed < len(r.prompt)]
        for request in [*decoding, *prefilling]:
            if request in self.preempted:
                continue
            chunk = self.next_chunk(request, budget)
            if chunk is None or not self._make_room(chunk):
                continue
            budget -= chunk.rows
            planned.append(chunk)
        return [chunk for chunk in planned if chunk.request not in self.preempted]

    def next_chunk(self, request: Request, budget: int) -> Chunk | None:
        """What a request computes next; None when the budget has no room for it."""
        start, known = request.computed, len(request.tokens)
        if start < len(request.prompt):
            stop = self._laid_out(request, start) or self.chunk_end(request, start, budget)
            phase = Phase.REPLAY if start < request.replay_until else Phase.PREFILL
            if stop <= start:
                return None
            return Chunk(request, start, stop, phase, request.tokens[start:stop])
        if start < known - 1:
            return Chunk(
                request, start, start + 1, Phase.REPLAY, request.tokens[start : start + 1]
            )
        tokens = [request.tokens[start], *request.drafts]
        phase = Phase.VERIFY if self.config.drafts else Phase.DECODE
        return Chunk(request, start, start + len(tokens), phase, tokens)

    def chunk_end(self, request: Request, start: int, budget: int) -> int:
        """Where a prefill chunk ends: on the same absolute grid for every request."""
        stride, chunk = self.config.prefill_stride, self.config.chunk
        stop = min((start // stride + 1) * stride, len(request.prompt))
        if stop - start > budget:
            stop = (start + max(0, budget)) // chunk * chunk
        return stop

    def finish(self, request: Request) -> None:
        """A request leaves."""
        self.running.remove(request)
        self.drop_blocks(request)

    def drop_blocks(self, request: Request) -> None:
        """A request no longer uses its blocks."""
        for block in request.table:
            self.blocks.release(block, published=self.cache.published(block))
        request.table.clear()
        request.written.clear()

    def _laid_out(self, request: Request, start: int) -> int | None:
        """The end of the chunk that the caller of the request asked for."""
        for first, stop in request.layout or ():
            if first <= start < stop:
                return min(stop, len(request.prompt))
        return None

    def _make_room(self, chunk: Chunk) -> bool:
        """Blocks for all rows of a chunk; False when its own request was preempted for want."""
        request = chunk.request
        length = request.kv_length + chunk.rows
        while len(request.table) * self.config.block < length:
            if self.blocks.free_blocks or self.cache.evict_block():
                self.blocks.allocate(request)
                continue
            victim = self.running[-1]
            if len(self.running) == 1:
                raise CapacityError(f"request {request.name} needs more blocks than there are")
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _preempt(self, victim: Request) -> None:
        self.running.remove(victim)
        self.drop_blocks(victim)
        self.preempted.append(victim)
        self.waiting.appendleft(victim)
