"""Two requests on one document, whose lengths decide which of them saves a state."""

from typing import Any

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults.fault import Fault
from layerdiff_samples.faults.sharing import CHECKPOINT_THRESHOLD

BLOCK = 32
SHORT = 2 * BLOCK - 4
"""Under two blocks: one chunk, and no state."""
LONG = 2 * BLOCK + 8
NINE = 9
TIMES = 10

CONFIG = EngineConfig(
    block=BLOCK, budget=4 * BLOCK, drafts=1, projection="by_rows", wide_rows=BLOCK + 1
)
"""Chunks of more than one block are projected by another kernel."""
_TEXT = document(4 * BLOCK)


def pair(
    name: str,
    title: str,
    first: int,
    second: int = LONG,
    *,
    times: int = 1,
    faults: tuple[Fault, ...] = (CHECKPOINT_THRESHOLD,),
    **more: Any,
) -> SampleCase:
    """Prompts of *first* and *second* tokens, then the second one again, which is compared."""
    return SampleCase(
        name,
        title,
        config=CONFIG,
        fills=[Turn("a", _TEXT[:first], 1), Turn("b", _TEXT[:second], 1)],
        asked=[Turn(f"b{time}", _TEXT[:second], 1) for time in range(1, times + 1)],
        faults=faults,
        **more,
    )


THRESHOLD = pair(
    "r2-checkpoint-threshold", "rows of a chunk that left no state, under another's state", SHORT
)
NINE_TOKENS = pair("r2-nine-tokens", "nine tokens more on the first request", SHORT + NINE)
EVERY_BOUNDARY = pair(
    "r2-every-boundary",
    "every boundary ends a chunk",
    SHORT,
    times=TIMES,
    faults=(),
    arms=("cold", "warm"),
)

CASES = (THRESHOLD, NINE_TOKENS, EVERY_BOUNDARY)
