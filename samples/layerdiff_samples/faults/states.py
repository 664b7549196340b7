"""States that are restored from the wrong slot."""

from dataclasses import replace

from layerdiff_samples.engine.checkpoints import Checkpoint, Checkpoints
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Request, State
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.faults.fault import Fault


class UnwrittenSlot(Checkpoints):
    """Reads a slot that nothing has written."""

    def slot_to_read(self, saved: Checkpoint) -> int:
        return len(self.pool.generation) - 1


class SlotByPosition(Checkpoints):
    """Finds a slot by the position of its state alone.

    Whoever saved a state at the same position last is read, under whatever prefix.
    """

    def __init__(self, pool: StatePool, recording: Recording) -> None:
        super().__init__(pool, recording)
        self._last: dict[int, int] = {}

    def save(self, request: Request, position: int, state: State) -> Checkpoint:
        saved = super().save(request, position, state)
        self._last[position] = saved.slot
        return saved

    def slot_to_read(self, saved: Checkpoint) -> int:
        return self._last[saved.position]


def _unwritten(parts: Parts) -> Parts:
    return replace(parts, checkpoints=UnwrittenSlot)


def _by_position(parts: Parts) -> Parts:
    return replace(parts, checkpoints=SlotByPosition)


ZERO_STATE = Fault("zero-state", _unwritten)
FOREIGN_STATE = Fault("foreign-state", _by_position)

FAULTS = (ZERO_STATE, FOREIGN_STATE)
