"""A zero state, a foreign one, a selection that does not repeat, and a ghost."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.engine.config import EngineConfig
from layerdiff_samples.faults.races import RACY_TOPK
from layerdiff_samples.faults.states import FOREIGN_STATE, ZERO_STATE

HIT = 48
_TEXT, _OTHER = document(90), document(70, seed=1)
_PROMPT = _TEXT[:70]
_CONFIG = EngineConfig(drafts=0)

ZERO = SampleCase(
    "r3-zero-state",
    "restore reads a slot that nothing has written",
    config=_CONFIG,
    fills=[Turn("fill", _TEXT[: HIT + 2], 1)],
    asked=[Turn("r1", _PROMPT, 3)],
    faults=[ZERO_STATE],
)
RACY = SampleCase(
    "r3-racy-topk",
    "threads race for the places of a top-k",
    config=_CONFIG,
    fills=[Turn("fill", _TEXT[: HIT + 2], 1)],
    asked=[Turn("r1", _TEXT, 3)],
    faults=[RACY_TOPK],
)
SHORT_PROMPT = SampleCase(
    "r3-short-prompt",
    "the same selection, where it takes all there is",
    config=_CONFIG,
    fills=[Turn("fill", _TEXT[:34], 1)],
    asked=[Turn("r1", _TEXT[:37], 3)],
    faults=[RACY_TOPK],
)
FOREIGN = SampleCase(
    "r3-foreign-state",
    "restore reads another request's slot",
    config=_CONFIG,
    fills=[Turn("mine", _TEXT[: HIT + 2], 1), Turn("theirs", _OTHER[: HIT + 2], 1)],
    asked=[Turn("r1", _PROMPT, 3)],
    faults=[FOREIGN_STATE],
)
SHARED_DOCUMENT = SampleCase(
    "r3-shared-document",
    "the same slots, where all requests share one document",
    config=_CONFIG,
    fills=[Turn("mine", _TEXT[: HIT + 2], 1), Turn("theirs", _TEXT[: HIT + 2], 1)],
    asked=[Turn("r1", _PROMPT, 3)],
    faults=[FOREIGN_STATE],
)
GHOST = SampleCase(
    "r3-ghost",
    "streams that share one document and look like each other",
    config=_CONFIG,
    fills=[Turn("fill", _TEXT[: HIT + 2], 1)],
    asked=[Turn(f"stream{i}", (*_TEXT[:54], *document(4, seed=i)), 2) for i in range(2, 5)],
    together=True,
)

CASES = (ZERO, RACY, SHORT_PROMPT, FOREIGN, SHARED_DOCUMENT, GHOST)
