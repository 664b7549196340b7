"""How a difference spreads from the inputs of a site to its rows.

A flow says of every position whether what is there differs between the arms, and how much. Sites
turn incoming flows into outgoing ones; an origin is a row that differs while nothing comes in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import ColumnDiff, State


@dataclass(frozen=True, slots=True)
class Flow:
    """What differs at each position of a site, or of what comes into it."""

    bad: NDArray[np.bool_]
    size: NDArray[np.float32]
    """Relative difference; 0 where nothing differs, NaN where it is not known."""

    @property
    def clean(self) -> bool:
        """Whether nothing differs anywhere."""
        return not bool(self.bad.any())

    def running(self) -> "Flow":
        """What has come by up to each position, that position included."""
        if self.clean:
            return self
        return Flow(np.logical_or.accumulate(self.bad), np.maximum.accumulate(self.size))

    def before(self) -> "Flow":
        """What has come by before each position."""
        ran = self.running()
        return Flow(
            np.concatenate(([False], ran.bad[:-1])),
            np.concatenate((np.zeros(1, np.float32), ran.size[:-1])),
        )

    def slice(self, start: int, stop: int) -> "Flow":
        """A run of positions."""
        return Flow(self.bad[start:stop], self.size[start:stop])

    def worst(self) -> "Flow":
        """All positions folded into one."""
        worst = np.maximum.reduce(self.size, initial=np.float32(0))
        return Flow(np.array([self.bad.any()]), np.array([worst], np.float32))


def nothing(size: int) -> Flow:
    """A flow without a difference."""
    return Flow(np.zeros(size, bool), np.zeros(size, np.float32))


def merge(*flows: Flow) -> Flow:
    """What comes in over several ways; a single-position flow counts everywhere."""
    bad, size = flows[0].bad, flows[0].size
    for flow in flows[1:]:
        bad, size = bad | flow.bad, np.maximum(size, flow.size)
    return Flow(bad, size)


def onward(diff: ColumnDiff, incoming: Flow) -> Flow:
    """What a site hands on: its own difference where it was observed, else what came in."""
    seen = (diff.state == State.AGREES) | (diff.state == State.DIFFERS)
    return Flow(
        np.where(seen, diff.state == State.DIFFERS, incoming.bad),
        np.where(seen, diff.relative, incoming.size).astype(np.float32),
    )


def overlay(base: Flow, diff: ColumnDiff) -> Flow:
    """*base*, with what was observed of the same values later."""
    return onward(diff, base)


JUMP_RATIO = 200.0
"""A row jumps when its relative difference is more than this many times what comes in.

Between benign pairs, whose ratio stays below about 90 with the estimate's own error, and planted
defects in fp32, which begin at about 7,000 with it.
"""


def jumps(outgoing: Flow, incoming: Flow, eps: float) -> NDArray[np.bool_]:
    """Where a difference grows far beyond what comes in and beyond rounding.

    Args:
        eps: Machine epsilon of the site's dtype; an eighth of it stands for nothing coming in.
    """
    floor = np.fmax(np.nan_to_num(incoming.size, nan=np.inf), np.float32(eps / 8))
    with np.errstate(invalid="ignore", over="ignore"):
        grown: NDArray[np.bool_] = outgoing.bad & (outgoing.size > JUMP_RATIO * floor)
    return grown
