"""Cases about replays from a checkpoint."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults import drafting, replay

_TEXT = document(100)
_OTHER = document(64, seed=1)
_SMALL = EngineConfig(layers="ga", drafts=0)
_DRAFTING = EngineConfig(layers="ga")
_LONG_STRIDE = EngineConfig(layers="ga", drafts=0, stride=32)
_ALL = EngineConfig(layers="ga", stride=32)
_NARROW = EngineConfig(layers="ga", drafts=0, budget=16, max_running=3)

CASES = (
    SampleCase(
        "r4-tail-split",
        "caching splits off a prompt's tail, off the grid of the recurrent kernel",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:57])],
        asked=[Turn("r1", _TEXT[:75])],
        faults=[replay.TAIL_SPLIT],
        baseline="off",
    ),
    SampleCase(
        "r4-tail-split-on-grid",
        "caching splits off a prompt's tail, and happens to meet the grid",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:57])],
        asked=[Turn("r1", _TEXT[:71])],
        faults=[replay.TAIL_SPLIT],
        baseline="off",
    ),
    SampleCase(
        "r4-kv-floor",
        "a replay keeps rows of an earlier request that was computed in other chunks",
        config=_LONG_STRIDE,
        fills=[Turn("fill", _TEXT[:52])],
        asked=[Turn("r1", _TEXT[:90])],
        faults=[replay.TAIL_SPLIT, replay.KV_FLOOR],
    ),
    SampleCase(
        "r4-kv-floor-same-rows",
        "a replay keeps rows of an earlier request that was computed on the same grid",
        config=_LONG_STRIDE,
        fills=[Turn("fill", _TEXT[:56])],
        asked=[Turn("r1", _TEXT[:90])],
        faults=[replay.TAIL_SPLIT, replay.KV_FLOOR],
    ),
    SampleCase(
        "r4-kernel-mismatch",
        "requests with a hit take the token-by-token recurrent kernel for their prompts",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:50])],
        asked=[Turn("r1", _TEXT[:70])],
        faults=[replay.SEQUENTIAL_AFTER_HIT],
    ),
    SampleCase(
        "r4-drafter-anchor",
        "the drafter of a warm request goes on from the rows of the turn before",
        config=_DRAFTING,
        fills=[Turn("fill", _TEXT[:40]), Turn("turn", _TEXT[:15], 20)],
        asked=[Turn("r1", _TEXT[:56], 6)],
        faults=[drafting.DRAFTER_ANCHOR],
    ),
    SampleCase(
        "r4-drafter-anchor-no-drafts",
        "the drafter's rows are lost, and nobody drafts",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:40]), Turn("turn", _TEXT[:15], 20)],
        asked=[Turn("r1", _TEXT[:56], 6)],
        faults=[drafting.DRAFTER_ANCHOR],
    ),
    SampleCase(
        "r4-slot-compaction",
        "compaction moves a state into a slot that is handed out again",
        config=_NARROW,
        fills=[Turn("fill", _TEXT[:50])],
        asked=[Turn("r1", _TEXT[:70])],
        mates=[Turn("short", _OTHER[48:64], 1), Turn("long", _OTHER[:48])],
        faults=[replay.SLOT_COMPACTION],
    ),
    SampleCase(
        "r4-slot-compaction-alone",
        "compaction with nothing that asks for a slot behind it",
        config=_NARROW,
        fills=[Turn("fill", _TEXT[:50])],
        asked=[Turn("r1", _TEXT[:70])],
        mates=[Turn("short", _OTHER[48:64], 1)],
        faults=[replay.SLOT_COMPACTION],
    ),
    SampleCase(
        "r4-stale-chunk-rows",
        "the rows behind a partial chunk hold what an earlier call left, and set its scale",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:71])],
        asked=[Turn("r1", _TEXT[:69])],
        faults=[replay.STALE_CHUNK_ROWS],
    ),
    SampleCase(
        "r4-stale-chunk-rows-covered",
        "the rows behind a partial chunk that no earlier call reached",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:67])],
        asked=[Turn("r1", _TEXT[:69])],
        faults=[replay.STALE_CHUNK_ROWS],
    ),
    SampleCase(
        "r4-never-warm",
        "lookups never hit: nothing was tested",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:50])],
        asked=[Turn("r1", _TEXT[:70])],
        faults=[replay.NEVER_WARM],
    ),
    SampleCase(
        "r4-all",
        "tail split, kept rows, another kernel and lost drafter rows at once",
        config=_ALL,
        fills=[Turn("fill", _TEXT[:52]), Turn("turn", _TEXT[:15], 20)],
        asked=[Turn("r1", _TEXT[:90], 6)],
        faults=[
            replay.TAIL_SPLIT,
            replay.KV_FLOOR,
            replay.SEQUENTIAL_AFTER_HIT,
            drafting.DRAFTER_ANCHOR,
        ],
        baseline="off",
    ),
)
