"""Ring caches of sliding layers that are cut back to a length which they no longer hold."""

from dataclasses import replace

from layerdiff_samples.engine.checkpoints import Checkpoint, Checkpoints
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.recording import Recording
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.state_pool import StatePool
from layerdiff_samples.faults.fault import Fault


class CutRings(Checkpoints):
    """Keeps one ring for each request, as its last pass left it, and cuts it back on a hit.

    Rows that the ring lost by wrapping are not there after the cut: their places hold rows of
    later positions.
    """

    def __init__(self, pool: StatePool, recording: Recording) -> None:
        super().__init__(pool, recording)
        self._rings: dict[str, State] = {}

    def rollback(self, chunk: Chunk, kept: int) -> State:
        state = super().rollback(chunk, kept)
        self._rings[chunk.request.name] = {
            name: value for name, value in state.items() if ":ring_" in name
        }
        return state

    def restore(self, request: Request, saved: Checkpoint) -> State:
        return super().restore(request, saved) | self._rings.get(saved.writer.request, {})


def _cut(parts: Parts) -> Parts:
    return replace(parts, checkpoints=CutRings)


CUT_RINGS = Fault("cut-rings", _cut)

FAULTS = (CUT_RINGS,)
