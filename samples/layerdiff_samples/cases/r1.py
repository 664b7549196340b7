"""One-token suffixes: the two-token kernel, and a cache on its way through a file."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reload import reloaded
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults.dispatch import DISPATCH_BY_QUERIES

PREFIX = 48
"""Tokens that another request cached, a multiple of the block size."""

_CONFIG = EngineConfig(stride=64, drafts=0)
"""A cold prompt is one pass."""
_TEXT = document(PREFIX + 2)


def _suffix(name: str, title: str, length: int) -> SampleCase:
    """A prompt of which a hit leaves *length* tokens."""
    return SampleCase(
        name,
        title,
        config=_CONFIG,
        fills=[Turn("fill", _TEXT[:PREFIX], 1)],
        asked=[Turn("r1", _TEXT[: PREFIX + length], 3)],
        faults=[DISPATCH_BY_QUERIES],
    )


TWO_TOKEN_KERNEL = _suffix(
    "r1-two-token-kernel", "a suffix of one token takes the kernel for one query", 1
)
TWO_TOKENS = _suffix("r1-two-tokens", "the same engine, with a suffix of two tokens", 2)
ROUNDTRIP = SampleCase(
    "r1-roundtrip",
    "the cache is saved, loaded into a new engine, and used there",
    config=_CONFIG,
    fills=[Turn("fill", _TEXT[:PREFIX], 1)],
    asked=[Turn("r1", _TEXT, 3)],
    between=reloaded,
)

CASES = (TWO_TOKEN_KERNEL, TWO_TOKENS, ROUNDTRIP)
