"""Looks at cached values of which a later look at the same value shows nothing."""

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import distances, equal_cells
from layerdiff.digest_store import DigestStore
from layerdiff.segments import Cells


def unlike(
    baseline: tuple[DigestStore, Cells], candidate: tuple[DigestStore, Cells]
) -> tuple[Cells, NDArray[np.float32]]:
    """The first look at each position that the baseline never shows, and how far it is off.

    What both arms read at some time is broken alike.

    Args:
        baseline: Values, by position and then by time; the last one is the right one.
        candidate: Looks, likewise.
    """
    (base, theirs), (cand, looks) = baseline, candidate
    low = np.searchsorted(theirs.position, looks.position, side="left")
    high = np.searchsorted(theirs.position, looks.position, side="right")
    wrong = high > low
    for version in range(int((high - low).max(initial=0))):
        at = np.flatnonzero(low + version < high)
        pairs = (base, theirs.take((low + version)[at])), (cand, looks.take(at))
        wrong[at[equal_cells(*pairs)]] = False
    looks, theirs = looks.take(wrong), theirs.take((high - 1)[wrong])
    first = np.ones(len(looks), bool)
    first[1:] = looks.position[1:] != looks.position[:-1]
    looks, theirs = looks.take(first), theirs.take(first)
    return looks, distances((base, theirs), (cand, looks))


def of_the_last_text(
    looks: Cells, made: Cells, drafted: NDArray[np.int64], *, state: bool
) -> Cells:
    """Without looks at what was made of drafted tokens and has been made again since."""
    last = np.searchsorted(made.position, looks.position, side="right") - 1
    again = last >= 0
    again[again] = made.position[last[again]] == looks.position[again]
    again[again] = made.observation[last[again]] > looks.observation[again]
    of_drafts = np.isin(looks.position, drafted)
    if state:
        of_drafts |= np.isin(looks.position - 1, drafted)
    return looks.take(~(again & of_drafts))
