"""States that a pass read where none was left, and that were left somewhere else.

Nothing recorded says what should be there, so only values that cannot be right count: those of
another position, whose last row was made of other values than the last row here.
"""

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import equal_cells
from layerdiff.digest_store import DigestStore
from layerdiff.format.reader import Site
from layerdiff.lineage import Line
from layerdiff.segments import Cells, expand
from layerdiff.vocabulary import Moment


def misplaced(
    line: Line, store: DigestStore, site: Site, unwritten: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Which of the *unwritten* positions were read with the state of another one."""
    if not len(unwritten):
        return unwritten
    read = expand(line.states(site.index, Moment.IN))
    read = read.take(np.isin(read.position, unwritten) & (read.position > 0))
    if not len(read):
        return read.position
    found = []
    for at in range(len(read)):
        look = read.take(slice(at, at + 1))
        if any(_taken_from(line, store, site, look, r.index) for r in line.dump.requests):
            found.append(int(look.position[0]))
    return np.unique(np.array(found, np.int64))


def _taken_from(line: Line, store: DigestStore, site: Site, look: Cells, request: int) -> bool:
    """Whether a look found what a request left at a place where it was made of other rows."""
    left = expand(line.index.find(request, site.index, Moment.OUT))
    repeated = look.take(np.zeros(len(left), np.intp))
    same = left.position[equal_cells((store, left), (store, repeated))]
    here = int(look.position[0]) - 1
    for index in site.inputs:
        ours = _row(expand(line.rows(index, Moment.COMPUTED)), here)
        made = expand(line.index.find(request, index, Moment.COMPUTED))
        for position in np.unique(same).tolist():
            theirs = _row(made, position - 1)
            if len(ours) and len(theirs) and not equal_cells((store, ours), (store, theirs)).all():
                return True
    return False


def _row(rows: Cells, position: int) -> Cells:
    """The last version of a row; nothing if it was never seen."""
    return rows.take(np.flatnonzero(rows.position == position)[-1:])
