"""Finds a request whose tokens are those of another, with some repeated or missing.

Token ids are not in a dump, but the embedding's rows are, and they depend on nothing else.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from layerdiff.pairing import Pair, PairKind, Prompt, common_prefix
from layerdiff.segments import expand
from layerdiff.vocabulary import Moment, Reach, TensorKind

if TYPE_CHECKING:
    from layerdiff.comparison import Arm, PairTrace

_SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4)
_RUN = 3
"""Tokens that must follow in step before two requests count as shifted."""


def find_shifted(
    baseline: "Arm", candidate: "Arm", lone: list[Prompt], others: list[Prompt]
) -> list[Pair]:
    """Pairs among requests without a partner: equal up to a position, then shifted."""
    found = []
    for prompt in others:
        for partner in lone:
            at = common_prefix(partner.chain, prompt.chain)
            if at and (shift := _shift(baseline, partner, candidate, prompt, at)):
                found.append(Pair(partner, prompt, PairKind.SHIFTED, at, shift))
                break
    return found


def _shift(baseline: "Arm", theirs: Prompt, candidate: "Arm", ours: Prompt, at: int) -> int:
    """By how much the candidate's tokens from *at* on are ahead of the baseline's; 0 if not."""
    left, right = _embeddings(baseline, theirs.request), _embeddings(candidate, ours.request)
    for shift in _SHIFTS:
        low = at + shift
        count = min(len(right) - at, len(left) - low)
        run = slice(at, at + count), slice(low, low + count)
        if low < 0 or count < _RUN or not right[run[0]].all():
            continue
        if np.array_equal(right[run[0]], left[run[1]]):
            return shift
    return 0


def runs_again(candidate: "Arm", baseline: "Arm", pair: "PairTrace") -> bool:
    """Whether the candidate runs the token before its hit once more, and the baseline does not."""
    line, base = pair.trace.candidate, pair.trace.baseline
    at = line.hit
    own = _embeddings(candidate, line.request)
    theirs = _embeddings(baseline, base.request)
    before = theirs[at - 1] if at <= len(theirs) else 0
    if at >= len(own) or not own[at] or own[at] != before:
        return False
    return at >= len(theirs) or theirs[at] != own[at]


def _embeddings(arm: "Arm", request: int) -> NDArray[np.uint64]:
    """Digests of a request's embedding rows by position; 0 where it computed none."""
    length = len(arm.dump.chain(request)[0])
    found = np.zeros(length, np.uint64)
    for site in arm.dump.sites:
        if site.inputs or site.reach is not Reach.ROW or site.kind is not TensorKind.HIDDEN:
            continue
        cells = expand(arm.index.find(request, site.index, Moment.COMPUTED).clip(0, length))
        if len(cells) and cells.parts.max() == 1:
            found[cells.position] = arm.store.digests(cells.first, 1)[:, 0]
            return found
    return found
