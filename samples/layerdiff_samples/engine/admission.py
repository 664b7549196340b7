"""How requests come in, from nothing or from a cached prefix, and go back to waiting."""

from typing import TYPE_CHECKING

from layerdiff.vocabulary import EventKind
from layerdiff_samples.engine.prefix_cache import Hit, content_digest
from layerdiff_samples.engine.request import Request

if TYPE_CHECKING:
    from layerdiff_samples.engine.engine import Engine


class Admission:
    """Gives requests a slot, and what the cache has for them."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def admit_waiting(self) -> None:
        """Admits in order of arrival while there is room."""
        scheduler = self._engine.scheduler
        while (request := scheduler.admissible()) is not None:
            if not self.free_slot():
                scheduler.waiting.appendleft(request)
                return
            self._admit(request)
            scheduler.running.append(request)

    def free_slot(self) -> bool:
        """Whether a state slot is free, if need be after dropping a checkpoint."""
        engine = self._engine
        return engine.states.free_slots > 0 or engine.cache.evict_checkpoint()

    def suspend(self, request: Request) -> None:
        """A preempted request loses what it held; its tokens stay."""
        assert request.slot is not None
        self._engine.states.free(request.slot)
        request.slot = None
        request.draft_rows = None
        request.drafts = []
        request.replay_until = max(request.replay_until, request.computed)
        request.computed = request.kv_length = 0

    def _admit(self, request: Request) -> None:
        engine, size = self._engine, self._engine.config.block
        looks = engine.config.caching and request.reuse
        hit = engine.cache.lookup(request) if looks else Hit()
        engine.cache.take(hit)
        request.table = list(hit.blocks)
        parts = enumerate(hit.writers)
        request.written = [(i * size, (i + 1) * size, writer) for i, writer in parts]
        request.hit = request.computed = hit.length
        request.kv_length = hit.kv_length
        request.published = len(hit.blocks)
        if not request.begun:
            request.begun = True
            engine.recording.begin(request, hit.writers[-1] if hit.writers else None)
        if looks:
            self._tell(request, hit)
        self._restore(request, hit)

    def _restore(self, request: Request, hit: Hit) -> None:
        engine = self._engine
        request.slot = engine.states.allocate(request)
        saved = hit.checkpoint
        if saved is None:
            state = engine.states.zeros()
        else:
            state = engine.checkpoints.restore(request, saved)
        engine.states.write(request.slot, state)
        if engine.drafter is not None:
            engine.drafter.start(request, None if saved is None else saved.draft_rows)

    def _tell(self, request: Request, hit: Hit) -> None:
        engine = self._engine
        recording = engine.recording
        if not recording.on:
            return
        keys = engine.cache.keys(request.prompt)
        # A key stands for whole blocks, of which the last token may be computed once more.
        blocks = -(-hit.length // engine.config.block)
        asked = max(0, blocks - 1)
        served = {"kv": hit.kv_length, "state": hit.length}
        if engine.drafter is not None:
            served["drafter"] = hit.length
        recording.event(
            EventKind.LOOKUP,
            request=request,
            value=hit.length,
            facts={
                "planned": {"kv": hit.possible, "state": hit.length},
                "served": served,
                "key": hit.key,
                "candidate": keys[asked] if keys else "",
                "of": content_digest(request.prompt[: blocks * engine.config.block]),
                "stored_of": hit.content,
            },
        )
        if hit.possible > hit.length:
            recording.event(
                EventKind.DECLINE,
                request=request,
                value=hit.possible,
                text="no checkpoint at the end of the cached blocks",
            )
