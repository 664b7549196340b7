"""States that a pass read where none was left, and that were left somewhere else.

Nothing recorded says what should be there, so only values that cannot be right count: those of
one other position alone, whose last row was made of other values than the last row here. What is
zero, or stays the same from row to row, is no position's own.
"""

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import equal_cells
from layerdiff.digest_store import DigestStore
from layerdiff.format import schema
from layerdiff.format.reader import Site
from layerdiff.lineage import Line
from layerdiff.segments import Cells, expand, join
from layerdiff.vocabulary import Moment


def misplaced(line: Line, store: DigestStore, site: Site, read: Cells) -> NDArray[np.int64]:
    """Positions at which the state of another one was read.

    Args:
        read: Looks at states that nothing was seen to leave there.
    """
    read = read.take(read.position > 0)
    if not len(read):
        return read.position
    flags = line.dump.observations["flags"][read.observation]
    read = read.take((flags & schema.FLAG_ALL_ZERO) == 0)
    found = [
        int(read.position[at])
        for at in range(len(read))
        if _is_misplaced(line, store, site, read.take(slice(at, at + 1)))
    ]
    return np.unique(np.array(found, np.int64))


def _is_misplaced(line: Line, store: DigestStore, site: Site, look: Cells) -> bool:
    """Whether a look found what requests left at one other position, made of other rows."""
    holders: list[tuple[int, int]] = []
    for request in line.dump.requests:
        runs = [
            line.index.find(request.index, site.index, moment)
            for moment in (Moment.OUT, Moment.SAVED)
        ]
        left = expand(join(runs))
        repeated = look.take(np.zeros(len(left), np.intp))
        same = left.position[equal_cells((store, left), (store, repeated))]
        holders += [(request.index, int(position)) for position in np.unique(same)]
    if len({position for _, position in holders}) != 1:
        return False
    here = int(look.position[0]) - 1
    for index in site.inputs:
        ours = _row(expand(line.rows(index, Moment.COMPUTED)), here)
        for holder, position in holders:
            made = expand(line.index.find(holder, index, Moment.COMPUTED))
            theirs = _row(made, position - 1)
            if len(ours) and len(theirs) and not equal_cells((store, ours), (store, theirs)).all():
                return True
    return False


def _row(rows: Cells, position: int) -> Cells:
    """The last version of a row; nothing if it was never seen."""
    return rows.take(np.flatnonzero(rows.position == position)[-1:])
