"""A replayed prompt that is cached as a whole, and a ring that has wrapped."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.families import ATTENTION_ALONE
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults.dispatch import DISPATCH_BY_QUERIES
from layerdiff_samples.faults.fault import Fault
from layerdiff_samples.faults.rings import CUT_RINGS
from layerdiff_samples.faults.sharing import WHOLE_PROMPT

BLOCKS = 48
"""A number of whole blocks."""
FILLED = BLOCKS - 6
"""Tokens that the ring has seen when it is cut back."""
_TEXT = document(80)
_CONFIG = EngineConfig(layers="aaa", stride=64, drafts=0)


def _again(name: str, title: str, length: int, *faults: Fault) -> SampleCase:
    """One prompt of *length* tokens, twice."""
    return SampleCase(
        name,
        title,
        config=_CONFIG,
        parts=ATTENTION_ALONE,
        fills=[Turn("fill", _TEXT[:length], 1)],
        asked=[Turn("r1", _TEXT[:length], 3)],
        faults=faults,
    )


def _ring(name: str, title: str, window: int) -> SampleCase:
    """A prompt that shares a prefix with one that has gone on behind it."""
    return SampleCase(
        name,
        title,
        config=EngineConfig(layers="sas", drafts=0, window=window),
        fills=[Turn("fill", _TEXT[:FILLED], 1)],
        asked=[Turn("r1", _TEXT[:BLOCKS], 3)],
        faults=[CUT_RINGS],
    )


WHOLE_PROMPT_HIT = _again(
    "r5-whole-prompt-hit", "the last token runs again on top of its own rows", BLOCKS, WHOLE_PROMPT
)
CLAMPED = _again("r5-clamped", "a healthy engine leaves the last block to compute", BLOCKS)
ONE_TOKEN_PASS = _again(
    "r5-one-token-pass",
    "a hit of all but one token takes the kernel for one query",
    BLOCKS + 1,
    DISPATCH_BY_QUERIES,
)
ONE_TOKEN = _again("r5-one-token", "a healthy pass of one token", BLOCKS + 1)
WRAPPED_RING = _ring("r5-wrapped-ring", "a ring that has wrapped is cut back", 16)
UNWRAPPED_RING = _ring("r5-unwrapped-ring", "a ring that has not wrapped yet is cut back", 64)

CASES = (WHOLE_PROMPT_HIT, CLAMPED, ONE_TOKEN_PASS, ONE_TOKEN, WRAPPED_RING, UNWRAPPED_RING)
