"""A selection whose threads hand out places in the order in which they arrive."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import torch
from torch import Tensor

from layerdiff_samples.engine import selection
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.faults.fault import Fault

_THREADS = 4
_BIN = 8.0
"""Width of a bin; scores within one are ties."""


def histogram_select(scores: Tensor, candidates: Tensor, topk: int) -> tuple[Tensor, Tensor]:
    """The *topk* candidates in the highest bins of a histogram; see `select_blocks`.

    Each thread looks at every fourth candidate; all that lie above the last bin are taken, and of
    those within it as many as there is room for: the first to arrive.
    """
    chosen, margin = selection.select_blocks(scores, candidates, topk)
    bins = (scores / _BIN).floor()
    with ThreadPoolExecutor(_THREADS) as threads:
        for row in range(len(scores)):
            found = candidates[row].nonzero()[:, 0]
            # Of so few none is left out: they are taken as they are.
            if len(found) > topk:
                ties = dict(zip(found.tolist(), bins[row, found].tolist(), strict=True))
                chosen[row] = torch.tensor(_take(ties, topk, threads))
    return chosen, margin


def _take(bins: dict[int, float], topk: int, threads: ThreadPoolExecutor) -> Sequence[int]:
    last = sorted(bins.values(), reverse=True)[topk - 1]
    above: list[int] = []
    within: list[int] = []
    begin = Barrier(_THREADS)
    blocks = list(bins)

    def scan(thread: int) -> None:
        begin.wait()
        for block in blocks[thread::_THREADS]:
            if bins[block] >= last:
                (above if bins[block] > last else within).append(block)

    list(threads.map(scan, range(_THREADS)))
    return [*above, *within][:topk]


def _racy(parts: Parts) -> Parts:
    return replace(parts, select_blocks=histogram_select)


RACY_TOPK = Fault("racy-topk", _racy)

FAULTS = (RACY_TOPK,)
