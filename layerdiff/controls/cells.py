"""One cell of the main comparison, looked up in a control."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import State
from layerdiff.comparison import Comparison, PairTrace
from layerdiff.controls.plan import ControlRun
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.trace import Column, Trace
from layerdiff.vocabulary import Mark, Moment


@dataclass(frozen=True, slots=True)
class View:
    """The main comparison's pair as a control shows it."""

    pair: PairTrace

    @property
    def trace(self) -> Trace:
        """What the control found."""
        return self.pair.trace

    def columns(self, site: Site) -> list[Column]:
        """All moments of the site of that name and role."""
        return [
            column
            for column in self.trace.columns.values()
            if (column.site.name, column.site.role) == (site.name, site.role)
        ]

    def column(self, site: Site, moment: Moment) -> Column | None:
        """One column; None where the control has nothing there."""
        return next((c for c in self.columns(site) if c.moment is moment), None)

    def state(self, site: Site, moment: Moment, position: int) -> State:
        """What is known of one cell."""
        column = self.column(site, moment)
        if column is None or position >= len(column.diff.state):
            return State.ABSENT
        return State(int(column.diff.state[position]))

    def mark(self, site: Site, moment: Moment, position: int) -> Mark:
        """What one cell came to."""
        column = self.column(site, moment)
        if column is None or position >= len(column.mark):
            return Mark.ABSENT
        return Mark(int(column.mark[position]))


def view(control: ControlRun, facts: OriginFacts) -> View | None:
    """The pair of a control that shares an arm and a request with an origin's; None without."""
    found = control.comparison
    for line in facts.lines:
        for side, arm in enumerate((found.baseline, found.candidate)):
            if arm.dump.path == line.dump.path:
                pair = _pair_of(found, side, line.request)
                if pair is not None:
                    return View(pair)
    return None


def _pair_of(comparison: Comparison, side: int, request: int) -> PairTrace | None:
    """The pair whose line on one side belongs to a request, or runs through it."""
    lines = [
        (pair.trace.candidate if side else pair.trace.baseline, pair) for pair in comparison.pairs
    ]
    exact = [pair for line, pair in lines if line.request == request]
    through = [pair for line, pair in lines if any(p.request == request for p in line.parts)]
    return next(iter([*exact, *through]), None)


def consumers(trace: Trace, site: Site) -> list[Site]:
    """The sites that directly depend on one, by name and role."""
    twin = next((s for s in trace.order if (s.name, s.role) == (site.name, site.role)), None)
    return [s for s in trace.order if twin is not None and twin.index in s.inputs]


def differing(column: Column, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which of the positions differ."""
    inside = positions[positions < len(column.diff.state)]
    found: NDArray[np.int64] = inside[column.diff.state[inside] == State.DIFFERS]
    return found
