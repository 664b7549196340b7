"""Digests and sketches of one dump, fetched by cell, with a bounded memory."""

from collections import OrderedDict
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from layerdiff.format.reader import Dump

_BLOCK = 1 << 16
_BLOCKS_KEPT = 160
"""Of 512 KiB each: about 80 MB a dump."""


class DigestStore:
    """Reads digests in blocks and keeps the recent ones."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self._blocks: OrderedDict[int, NDArray[np.uint64]] = OrderedDict()

    def digests(self, first: NDArray[np.int64], parts: int) -> NDArray[np.uint64]:
        """Digests [cells, parts] of cells whose first digest is at *first*."""
        index = (first[:, None] + np.arange(parts)).ravel()
        found = np.empty(len(index), np.uint64)
        block_of = index // _BLOCK
        cuts = [0, *(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(index)]
        for low, high in pairwise(cuts):
            if low < high:
                block = int(block_of[low])
                found[low:high] = self._block(block)[index[low:high] - block * _BLOCK]
        return found.reshape(len(first), parts)

    def sketches(self, first: NDArray[np.int64], parts: int) -> NDArray[np.float32] | None:
        """Sketches [cells, parts, 5] of the same cells; None when the dump has none."""
        if not len(first):
            return np.empty((0, parts, 5), np.float32)
        index = first[:, None] + np.arange(parts)
        found = np.empty((*index.shape, 5), np.float32)
        block_of = index // _BLOCK
        for block in np.unique(block_of):
            here = block_of == block
            low = int(index[here].min())
            part = self.dump.sketches(low, int(index[here].max()) + 1 - low)
            if part is None:
                return None
            found[here] = part[index[here] - low]
        return found

    def _block(self, block: int) -> NDArray[np.uint64]:
        if block in self._blocks:
            self._blocks.move_to_end(block)
            return self._blocks[block]
        start = block * _BLOCK
        count = min(_BLOCK, self.dump.digest_count - start)
        self._blocks[block] = self.dump.digests(start, count)
        if len(self._blocks) > _BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return self._blocks[block]
