"""States kept at block boundaries, so that a later request can go on from there."""

from dataclasses import dataclass

from layerdiff.vocabulary import EventKind, Moment
from layerdiff_samples.engine.draft_rows import DraftRows
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.engine.writer import Writer


@dataclass(slots=True, eq=False)
class Checkpoint:
    """All states of one prefix."""

    slot: int
    generation: int
    position: int
    """Tokens that the states have consumed."""
    writer: Writer
    draft_rows: DraftRows | None = None
    """The drafter's rows of the same prefix; None until the drafter made them."""


class Checkpoints:
    """Saves states into slots, restores them, and takes them back to an accepted row."""

    def __init__(self, pool: StatePool, recording: Recording) -> None:
        self.pool = pool
        self.recording = recording

    def save(self, request: Request, position: int, state: State) -> Checkpoint:
        """Keeps *state*, which has consumed *position* tokens; a slot must be free."""
        slot = self.pool.allocate(request)
        self.pool.write(slot, state)
        writer = self.recording.writer(request)
        saved = Checkpoint(slot, self.pool.generation[slot], position, writer)
        self._tell(EventKind.STATE_WRITE, request, saved, slot)
        self.recording.states(request, position, self.pool.read(slot), Moment.SAVED)
        return saved

    def restore(self, request: Request, saved: Checkpoint) -> State:
        """The states that *request* goes on from."""
        slot = self.slot_to_read(saved)
        self._tell(EventKind.STATE_READ, request, saved, slot)
        state = self.pool.read(slot)
        self.recording.states(request, saved.position, state, Moment.RESTORED)
        return state

    def slot_to_read(self, saved: Checkpoint) -> int:
        """Where a checkpoint lies."""
        return saved.slot

    def rollback(self, chunk: Chunk, kept: int) -> State:
        """The states after *kept* tokens, of those that a pass left."""
        return chunk.after[kept]

    def drop(self, saved: Checkpoint) -> None:
        """Gives a checkpoint's slot back."""
        self.pool.free(saved.slot, EventKind.EVICT)

    def _tell(self, kind: EventKind, request: Request, saved: Checkpoint, slot: int) -> None:
        self.recording.event(
            kind,
            request=request,
            writer=saved.writer if kind is EventKind.STATE_READ else None,
            start=saved.position,
            place=slot,
            generation=self.pool.generation[slot],
            text="state",
        )
