"""What a drafter goes on from when its own rows were not kept."""

from dataclasses import replace

from layerdiff_samples.engine.checkpoints import Checkpoint
from layerdiff_samples.engine.context import Context
from layerdiff_samples.engine.draft_rows import DraftRows
from layerdiff_samples.engine.drafter import Drafter
from layerdiff_samples.engine.model import Model
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import PrefixCache
from layerdiff_samples.engine.request import Request
from layerdiff_samples.engine.weights import Weights
from layerdiff_samples.faults.fault import Fault


class LastTurn(Drafter):
    """Keeps no rows with checkpoints; a warm request goes on from those of the turn before.

    They are what that turn left when it ended: rows of its own text, and of what it generated.
    """

    def __init__(self, context: Context, model: Model, weights: Weights) -> None:
        super().__init__(context, model, weights)
        self._left: DraftRows | None = None

    def start(self, request: Request, saved: DraftRows | None) -> None:
        super().start(request, saved)
        if saved is None and request.hit and self._left is not None:
            rows = self._left.copy(max(self._left.length, request.hit))
            rows.length = request.hit
            self.take_over(request, rows)

    def keep(self, request: Request, position: int) -> DraftRows | None:
        return None

    def retire(self, request: Request) -> None:
        self._left = request.draft_rows
        super().retire(request)


class WithoutDrafterRows(PrefixCache):
    """Takes a checkpoint for complete though the drafter's rows are missing."""

    def complete(self, checkpoint: Checkpoint | None) -> bool:
        return checkpoint is not None


def _last_turn(parts: Parts) -> Parts:
    lenient = type(WithoutDrafterRows.__name__, (WithoutDrafterRows, parts.prefix_cache), {})
    return replace(parts, drafter=LastTurn, prefix_cache=lenient)


DRAFTER_ANCHOR = Fault("drafter-anchor", _last_turn)

FAULTS = (DRAFTER_ANCHOR,)
