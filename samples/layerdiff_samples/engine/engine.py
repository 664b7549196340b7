"""The engine: requests in, tokens out, one step after the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from torch import Tensor

from layerdiff.vocabulary import EventKind, Phase
from layerdiff_hooks.recorder import Recorder
from layerdiff_samples.engine import books, persist
from layerdiff_samples.engine.admission import Admission
from layerdiff_samples.engine.checkpoints import Checkpoint
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.drafter import Kept
from layerdiff_samples.engine.model import Model
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Chunk, Request
from layerdiff_samples.engine.state_sites import LAYER_KINDS
from layerdiff_samples.engine.weights import make_weights


class Engine:
    """A small hybrid language model with its caches.

    Args:
        recorder: Who is told what is computed and cached; its file is the caller's to close.
        parts: What the engine is put together from.
    """

    def __init__(
        self,
        config: EngineConfig,
        recorder: Recorder | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.config = config
        self.parts = parts or Parts()
        self.recording = Recording(recorder)
        self.blocks = self.parts.block_pool(config, self.recording)
        self.states = self.parts.state_pool(config, self.recording)
        self.checkpoints = self.parts.checkpoints(self.states, self.recording)
        self.cache = self.parts.prefix_cache(config, self.blocks, self.checkpoints)
        self.scheduler = self.parts.scheduler(config, self.blocks, self.cache)
        context = Context(
            config,
            self.parts,
            self.blocks,
            self.parts.rope(config),
            self.parts.mask(),
            self.recording,
        )
        weights = make_weights(config)
        self.model = Model(context, weights)
        self.drafter = self.parts.drafter(context, self.model, weights) if config.drafts else None
        self.admission = Admission(self)
        self.requests: dict[str, Request] = {}

    def submit(
        self,
        name: str,
        token_ids: Sequence[int],
        max_new: int = 8,
        *,
        reuse: bool = True,
        chunks: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Queues a request.

        Args:
            reuse: Whether it may take a prefix from the cache.
            chunks: The prefill passes that it is to be computed in, as (start, stop).

        Raises:
            ValueError: A name that is taken, an empty prompt, or one that is too long.
        """
        if name in self.requests:
            raise ValueError(f"there is a request {name!r} already")
        length = len(token_ids) + max_new + self.config.drafts
        if not token_ids or max_new < 1 or length > self.config.max_length:
            raise ValueError(f"request {name!r}: {len(token_ids)} tokens and {max_new} new ones")
        layout = None if chunks is None else tuple(chunks)
        request = Request(name, tuple(token_ids), max_new, reuse, layout, tokens=list(token_ids))
        self.requests[name] = request
        self.scheduler.waiting.append(request)

    def run(self) -> dict[str, list[int]]:
        """Works until every request is finished; what each one generated."""
        while self.scheduler.waiting or self.scheduler.running:
            self.step()
        return {name: request.generated for name, request in self.requests.items()}

    def generate(self, name: str, token_ids: Sequence[int], max_new: int = 8) -> list[int]:
        """Submits one request and runs it; what it generated."""
        self.submit(name, token_ids, max_new)
        return self.run()[name]

    def save(self, path: Path | str) -> None:
        """Writes the prefix cache with all blocks and checkpoints to a file."""
        persist.save(self, Path(path))

    @classmethod
    def load(
        cls,
        path: Path | str,
        config: EngineConfig,
        recorder: Recorder | None = None,
        parts: Parts | None = None,
    ) -> Self:
        """A new engine with the prefix cache that `save` wrote.

        Raises:
            ValueError: The file is of an engine of other sizes.
        """
        engine = cls(config, recorder, parts)
        persist.load(engine, Path(path))
        return engine

    def step(self) -> None:
        """Admits, plans, runs one pass of the target and then the drafter."""
        self.admission.admit_waiting()
        chunks = self.scheduler.plan()
        for request in self.scheduler.preempted:
            self.admission.suspend(request)
        if not chunks:
            return
        kept, saved = self._pass(chunks)
        if self.drafter is not None:
            self.drafter.run(kept)
            for request, checkpoint in saved:
                checkpoint.draft_rows = self.drafter.keep(request, checkpoint.position)
        for chunk in chunks:
            if chunk.request.finished:
                self._finish(chunk.request)

    def _pass(self, chunks: list[Chunk]) -> tuple[list[Kept], list[tuple[Request, Checkpoint]]]:
        """One pass of the target: what it leaves for the drafter, and new checkpoints."""
        phases = {chunk.phase for chunk in chunks}
        for chunk in chunks:
            assert chunk.request.slot is not None
            chunk.before = self.states.read(chunk.request.slot)
            if chunk.phase is Phase.VERIFY:
                self.recording.drafted(chunk.request, chunk.tokens[1:], chunk.start + 1)
        with self.recording.forward_pass(
            chunks, phases.pop() if len(phases) == 1 else Phase.MIXED
        ):
            for chunk in chunks:
                books.tell_reads(self.recording, self.blocks, chunk)
                writer = self.recording.writer(chunk.request)
                books.tell_writes(self.recording, self.blocks, chunk, writer)
            hidden = self.model.forward(chunks)
            logits = self._logits(chunks, hidden)
            kept, saved = [], []
            for chunk, rows in zip(chunks, hidden, strict=True):
                length = self._commit(chunk, logits.get(chunk.request.name))
                kept.append(Kept(chunk, rows, length))
                checkpoint = self._publish(chunk)
                if checkpoint is not None:
                    saved.append((chunk.request, checkpoint))
        return kept, saved

    def _logits(self, chunks: list[Chunk], hidden: list[Tensor]) -> dict[str, Tensor]:
        """Reported logits of the rows that something is sampled from, by request."""
        sampled, rows = [], []
        for chunk, found in zip(chunks, hidden, strict=True):
            if not chunk.samples:
                continue
            start = chunk.stop - 1 if chunk.prompt_part else chunk.start
            sampled.append(Chunk(chunk.request, start, chunk.stop, chunk.phase, ()))
            rows.append(found[start - chunk.start :])
        logits = self.model.logits(sampled, rows, self.model.exit)
        return {c.request.name: found for c, found in zip(sampled, logits, strict=True)}

    def _commit(self, chunk: Chunk, logits: Tensor | None) -> int:
        """Takes new tokens and what the pass left of caches; how many positions are kept."""
        request = chunk.request
        drafts = [] if chunk.prompt_part else list(chunk.tokens[1:])
        accepted = 0
        if logits is not None:
            sample = self.parts.sample
            while accepted < len(drafts) and sample(logits[accepted]) == drafts[accepted]:
                accepted += 1
            request.tokens += [*drafts[:accepted], sample(logits[accepted])]
            request.drafts = []
            self.recording.generated(request)
        length = chunk.stop - len(drafts) + accepted
        request.kv_length += chunk.rows
        request.computed = length
        if drafts:
            self._settle(chunk, len(drafts), accepted)
        assert request.slot is not None
        self.states.write(request.slot, self.checkpoints.rollback(chunk, length))
        return length

    def _settle(self, chunk: Chunk, drafted: int, accepted: int) -> None:
        """Tells which drafts were accepted, and forgets the rows of the others."""
        request, first = chunk.request, chunk.start + 1
        event, stop = self.recording.event, chunk.stop
        event(EventKind.ACCEPTED, request=request, start=first, stop=stop, value=accepted)
        if accepted == drafted:
            return
        event(EventKind.ROLLBACK, request=request, start=first + accepted, stop=stop, text="state")
        old = request.kv_length
        self.blocks.truncate(request, old - (drafted - accepted))
        books.cut(request.written, request.kv_length)
        event(EventKind.TRUNCATE, request=request, start=request.kv_length, stop=old, text="kv")

    def _publish(self, chunk: Chunk) -> Checkpoint | None:
        """Offers what a prefill chunk completed to later requests."""
        request = chunk.request
        if not self.config.caching or not chunk.prompt_part:
            return None
        request.on_grid = request.on_grid and chunk.start % self.config.chunk == 0
        self.cache.publish(request, chunk.stop, self.recording.writer(request))
        key = self.cache.wants_checkpoint(request, chunk.stop)
        if key is None or not self.admission.free_slot():
            return None
        saved = self.checkpoints.save(request, chunk.stop, chunk.after[chunk.stop])
        self.cache.entries[key].checkpoint = saved
        return saved

    def _finish(self, request: Request) -> None:
        assert request.slot is not None
        self.model.leave(request, self.states.read(request.slot))
        if self.drafter is not None:
            self.drafter.retire(request)
        self.scheduler.finish(request)
        self.states.free(request.slot)
        self.recording.end(request)


def model_facts(config: EngineConfig) -> dict[str, object]:
    """The header of a dump: which model, which weights, which layers."""
    return {
        "model": {
            "class": "SampleHybrid",
            "architecture": str(config.architecture()),
            "weights": make_weights(config).digest(),
            "dtype": "float32",
        },
        "layers": [
            {"index": index, "name": f"layers.{index}", "kind": LAYER_KINDS[kind]}
            for index, kind in enumerate(config.layers)
        ],
    }
