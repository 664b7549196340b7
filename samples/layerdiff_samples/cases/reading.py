"""Cases of cached rows and states that are read otherwise than they were written."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults import reading

PLAIN = EngineConfig(layers="gag", drafts=0)
ATTENTION = PLAIN.layers.index("a")
"""The layer whose keys are paged."""
TEXT = document(70)
HIT = 48
"""Whole blocks of what was filled."""
_FILL = Turn("fill", TEXT[: HIT + 2], max_new=1)
_ASKED = Turn("r1", TEXT)
TIED = document(96, seed=10)
"""A text in which two blocks score nearly alike for some query behind the hit."""
_OTHER = Turn("other", document(HIT + 2, seed=1), max_new=1)

CASES = (
    SampleCase(
        "kv-read-path",
        "attention reads a hit through the block table of whoever ran before",
        config=PLAIN,
        fills=[_FILL, _OTHER],
        asked=[_ASKED],
        faults=[reading.STALE_TABLE],
    ),
    SampleCase(
        "kv-read-path-lucky",
        "the block table of whoever ran before names the very blocks of the hit",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[reading.STALE_TABLE],
    ),
    SampleCase(
        "layout",
        "a checkpoint's state is restored in the order in which slots keep it",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[reading.RAW_RESTORE],
    ),
    SampleCase(
        "layout-turned-back",
        "slots keep states transposed, and every reader turns them back",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[reading.KEY_MAJOR],
    ),
    SampleCase(
        "dtype-requant",
        "blocks that are kept for later requests go through bfloat16",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[reading.NARROW_OFFLOAD],
    ),
    SampleCase(
        "dtype-requant-exact",
        "blocks that are kept go through a dtype that holds their every bit",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[reading.WIDE_OFFLOAD],
    ),
    SampleCase(
        "discrete-tie",
        "the rounding of bfloat16 is larger than what parts two blocks that a query may choose",
        config=PLAIN,
        fills=[Turn("fill", TIED[: HIT + 2], max_new=1)],
        asked=[Turn("r1", TIED, max_new=1)],
        faults=[reading.NARROW_OFFLOAD],
    ),
)
