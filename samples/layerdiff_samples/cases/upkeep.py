"""Cases about states and rows that are not kept up."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults import upkeep

_TEXT = document(100)
_OTHER = document(64, seed=1)
_SMALL = EngineConfig(layers="ga", drafts=0)
_DRAFTING = EngineConfig(layers="ga")
_ONE_PASS = EngineConfig(layers="ga", drafts=0, stride=96, budget=96)
_CROWDED = EngineConfig(layers="ga", drafts=0, blocks=7)

_FILL = [Turn("fill", _TEXT[:57])]
_MORE = [*_FILL, Turn("again", _TEXT[:57], 1), Turn("other", _OTHER)]
"""The second asks for all blocks of the first at once: the deepest is then the first to go."""
_ASKED = [Turn("r1", _TEXT[:70])]
_LONG = [Turn("r1", _TEXT[:70], 8)]

CASES = (
    SampleCase(
        "upkeep-early-state",
        "restore reads the checkpoint of one block before",
        config=_SMALL,
        fills=_FILL,
        asked=_ASKED,
        faults=[upkeep.EARLY_STATE],
    ),
    SampleCase(
        "upkeep-early-state-first-block",
        "restore would read the checkpoint of one block before, and there is none",
        config=_SMALL,
        fills=[Turn("fill", _TEXT[:20])],
        asked=_ASKED,
        faults=[upkeep.EARLY_STATE],
    ),
    SampleCase(
        "upkeep-late-state",
        "restore reads the checkpoint of one block behind",
        config=_SMALL,
        fills=_FILL,
        asked=[Turn("r1", _TEXT[:40])],
        faults=[upkeep.LATE_STATE],
    ),
    SampleCase(
        "upkeep-state-ignored",
        "the recurrent kernel begins every pass over a prompt with an empty state",
        config=_ONE_PASS,
        fills=[Turn("fill", _TEXT[:48])],
        asked=_ASKED,
        faults=[upkeep.STATE_IGNORED],
    ),
    SampleCase(
        "upkeep-state-not-written",
        "the pass behind a hit does not write its recurrent state back",
        config=_SMALL,
        fills=_FILL,
        asked=_ASKED,
        faults=[upkeep.STATE_NOT_WRITTEN],
    ),
    SampleCase(
        "upkeep-state-rollback",
        "rejected drafts stay in the state of requests with a hit",
        config=_DRAFTING,
        fills=_FILL,
        asked=_LONG,
        faults=[upkeep.STATE_ROLLBACK_MISSING],
    ),
    SampleCase(
        "upkeep-kv-rollback",
        "rejected drafts stay in the rows of requests with a hit",
        config=_DRAFTING,
        fills=_FILL,
        asked=_LONG,
        faults=[upkeep.KV_ROLLBACK_MISSING],
    ),
    SampleCase(
        "upkeep-rollback-no-drafts",
        "rejected drafts would stay, and nobody drafts",
        config=_SMALL,
        fills=_FILL,
        asked=_LONG,
        faults=[upkeep.STATE_ROLLBACK_MISSING, upkeep.KV_ROLLBACK_MISSING],
    ),
    SampleCase(
        "upkeep-state-corrupted",
        "a bit of a saved state flips",
        config=_SMALL,
        fills=_FILL,
        asked=_ASKED,
        faults=[upkeep.WEAK_BIT],
    ),
    SampleCase(
        "upkeep-state-corrupted-unread",
        "a bit of a saved state flips, and nobody restores it",
        config=_SMALL,
        fills=_FILL,
        asked=[Turn("r1", _TEXT[:40])],
        faults=[upkeep.WEAK_BIT],
    ),
    SampleCase(
        "upkeep-pads",
        "pads of a batch run through the convolution",
        config=_SMALL,
        fills=_FILL,
        asked=_ASKED,
        mates=[Turn("mate", _OTHER[:48])],
        faults=[upkeep.BATCH_PADS],
    ),
    SampleCase(
        "upkeep-pads-same-length",
        "pads of a batch would run through the convolution, and all chunks are of one length",
        config=_SMALL,
        fills=_FILL,
        asked=[Turn("r1", _TEXT[:80])],
        mates=[Turn("mate", _OTHER[:32])],
        faults=[upkeep.BATCH_PADS],
    ),
    SampleCase(
        "upkeep-kv-order",
        "a block's rows are loaded in another order",
        config=_SMALL,
        fills=_FILL,
        asked=_ASKED,
        faults=[upkeep.SHUFFLED_ROWS],
    ),
    SampleCase(
        "upkeep-kv-order-followed",
        "a block's rows lie in another order, and are read by it",
        config=_SMALL,
        fills=_FILL,
        asked=_ASKED,
        faults=[upkeep.STRANGE_ORDER],
    ),
    SampleCase(
        "upkeep-kv-overwritten",
        "a block that was evicted is found again, with rows that others wrote since",
        config=_CROWDED,
        fills=_MORE,
        asked=_ASKED,
        faults=[upkeep.LASTING_ENTRIES],
    ),
    SampleCase(
        "upkeep-kv-overwritten-room",
        "a block would be found after its eviction, and there is room for all",
        config=_SMALL,
        fills=_MORE,
        asked=_ASKED,
        faults=[upkeep.LASTING_ENTRIES],
    ),
)
