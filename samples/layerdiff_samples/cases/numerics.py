"""Cases of arithmetic that is not the same for a warm request and a cold one."""

from dataclasses import replace

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reading import HIT, PLAIN, TEXT
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.faults import numerics

_FILL = Turn("fill", TEXT[: HIT + 2], max_new=1)
_WHOLE = Turn("fill", TEXT[:HIT], max_new=1)
"""Ends where a checkpoint may be, whatever the stride."""
_ASKED = Turn("r1", TEXT)
ONE_PASS = replace(PLAIN, stride=256, budget=128)
"""Runs a prompt in one pass, unless a hit comes first."""
_MATE = Turn("mate", document(20, seed=2), max_new=60)

CASES = (
    SampleCase(
        "rope-offset",
        "a request with a hit counts positions from the end of the hit",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[numerics.ROPE_RESTARTS],
    ),
    SampleCase(
        "rope-offset-split",
        "every pass counts positions from its own start: the split cold run agrees with warm",
        config=ONE_PASS,
        fills=[_WHOLE],
        asked=[_ASKED],
        faults=[numerics.ROPE_BY_PASS],
    ),
    SampleCase(
        "rope-regime",
        "the frequencies follow the length of the request that fills the cache",
        config=ONE_PASS,
        fills=[_WHOLE],
        asked=[_ASKED],
        faults=[numerics.ROPE_STRETCHES],
    ),
    SampleCase(
        "rope-regime-short",
        "no request is long enough for other frequencies",
        config=ONE_PASS,
        fills=[_WHOLE],
        asked=[Turn("r1", TEXT[: numerics.LONG - 4])],
        faults=[numerics.ROPE_STRETCHES],
    ),
    SampleCase(
        "mask-seam",
        "the causal mask of a chunk behind cached keys is anchored at its corner",
        config=ONE_PASS,
        fills=[_WHOLE],
        asked=[_ASKED],
        faults=[numerics.TOP_LEFT_MASK],
    ),
    SampleCase(
        "partial-merge",
        "a cached part is merged with the wrong base of logarithms",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[numerics.WRONG_BASE],
    ),
    SampleCase(
        "compile-mode",
        "a request with a hit replays a graph that sums in another order",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        faults=[numerics.GRAPH_AFTER_HIT],
    ),
    SampleCase(
        "batch-composition",
        "decoded rows of several requests share a tile with one scale",
        config=PLAIN,
        fills=[_FILL],
        asked=[_ASKED],
        mates=[_MATE],
        faults=[numerics.SHARED_TILE],
    ),
)
