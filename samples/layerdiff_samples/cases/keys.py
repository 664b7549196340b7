"""Cases of keys that stand for more than one text."""

from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reading import HIT, PLAIN, TEXT
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.faults import keys

_BLOCK = PLAIN.block
_OTHER = document(HIT, seed=3)
_SAME_ENDS = tuple(
    TEXT[at] if at % _BLOCK >= _BLOCK - keys.COVERED else other for at, other in enumerate(_OTHER)
)
"""Another text whose blocks end in the same tokens."""
_OTHER_END = (*TEXT[: HIT - 1], (TEXT[HIT - 1] + 1) % PLAIN.vocab)

CASES = (
    SampleCase(
        "key-collision",
        "a key covers only the last tokens of a block",
        config=PLAIN,
        fills=[Turn("fill", (*_SAME_ENDS, *TEXT[HIT : HIT + 2]), max_new=1)],
        asked=[Turn("r1", TEXT)],
        faults=[keys.SHORT_KEYS],
    ),
    SampleCase(
        "key-collision-other-end",
        "texts that differ in the covered tokens share what comes before",
        config=PLAIN,
        fills=[Turn("fill", (*_OTHER_END, *TEXT[HIT : HIT + 2]), max_new=1)],
        asked=[Turn("r1", TEXT)],
        faults=[keys.SHORT_KEYS],
    ),
)
