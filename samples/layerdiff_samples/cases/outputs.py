"""Cases whose arms differ behind the head, before the first layer, or not at all."""

from dataclasses import replace
from pathlib import Path

from layerdiff_hooks.hunt import Arm, Case
from layerdiff_hooks.hunt.arm import ORDER
from layerdiff_hooks.recorder import Recorder
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reading import HIT, PLAIN, TEXT
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.faults import numerics, outputs

_FILL = Turn("fill", TEXT[: HIT + 2], max_new=1)
_ASKED = Turn("r1", TEXT)
CHANGED = 60
"""Position of the token that a client writes otherwise."""
_REWRITTEN = Turn("r1", (*TEXT[:CHANGED], (TEXT[CHANGED] + 1) % PLAIN.vocab, *TEXT[CHANGED + 1 :]))


class Unlike(Case):
    """Two cases as one: arms that fill the cache run the second.

    What differs is given from outside, so that no fault of the engine is needed.
    """

    engine = SampleCase.engine
    can = SampleCase.can

    def __init__(self, name: str, title: str, cold: SampleCase, warm: SampleCase) -> None:
        self.name, self.title = name, title
        self._cold, self._warm = cold, warm

    def record(self, arm: Arm, path: Path) -> None:
        """Records one of the two, each with a header of its own."""
        case = self._warm if arm.fill else self._cold
        case.record(arm, path)


class OneServer(SampleCase):
    """Measures on a server that keeps running: earlier requests have warmed it for every arm."""

    def run(self, arm: Arm, recorder: Recorder) -> None:
        """Runs everything and looks everything up, whatever the arm asks."""
        super().run(replace(arm, fill=True, reuse=True), recorder)


def _plain(asked: Turn = _ASKED, *, seed: int = 0) -> SampleCase:
    return SampleCase("", "", config=replace(PLAIN, seed=seed), fills=[_FILL], asked=[asked])


CASES: tuple[Case, ...] = (
    SampleCase(
        "output-buffer",
        "reported logits come from another row of the batch",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        mates=[Turn("mate", document(20, seed=2), max_new=60)],
        faults=[outputs.SWAPPED_ROWS],
    ),
    SampleCase(
        "output-buffer-alone",
        "the only row of a batch is the right one",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        mates=[Turn("mate", document(10, seed=2), max_new=1)],
        faults=[outputs.SWAPPED_ROWS],
    ),
    SampleCase(
        "both-wrong",
        "every pass counts positions from its own start, cold and warm alike",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[numerics.ROPE_BY_PASS],
        arms=(*ORDER, "reference"),
    ),
    Unlike(
        "request-mismatch",
        "the warm request has another token",
        _plain(),
        _plain(_REWRITTEN),
    ),
    Unlike(
        "weights-mismatch",
        "the warm server runs other weights",
        _plain(),
        _plain(seed=1),
    ),
    OneServer(
        "cold-not-cold",
        "the cold run finds a server that is warm already",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
    ),
)
