"""Top-k choices: the same set in another order, or another set."""

import numpy as np
from numpy.typing import NDArray

from layerdiff.format.reader import Dump
from layerdiff.segments import Cells


def same_choices(baseline: Dump, theirs: Cells, candidate: Dump, ours: Cells) -> bool | None:
    """Whether two top-k rows that differ hold the same set; None where that was not recorded.

    Element digests cover all rows of an observation, so both must be of the same rows.

    Args:
        theirs: One cell of the baseline.
        ours: The same cell of the candidate.
    """
    if not len(theirs) or not len(ours):
        return None
    observations = int(theirs.observation[0]), int(ours.observation[0])
    rows = [
        int(dump.observations["rows"][index])
        for dump, index in zip((baseline, candidate), observations, strict=True)
    ]
    offsets = [
        int(cells.first[0]) - int(dump.observations["first_digest"][index])
        for dump, cells, index in zip(
            (baseline, candidate), (theirs, ours), observations, strict=True
        )
    ]
    sums = element_sums(baseline, observations[0]), element_sums(candidate, observations[1])
    if rows[0] != rows[1] or offsets[0] != offsets[1] or not len(sums[0]) or not len(sums[1]):
        return None
    return bool(np.array_equal(*sums))


def element_sums(dump: Dump, observation: int) -> NDArray[np.uint64]:
    """Order-free digests of an observation, one a part; empty if none were taken."""
    elements = dump.elements
    found: NDArray[np.uint64] = elements["digest"][elements["observation"] == observation]
    return found
