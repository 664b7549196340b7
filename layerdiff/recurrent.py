"""Judges mixers that carry a state from row to row: recurrent kernels and short convolutions.

Inside a pass the state is hidden in the kernel, so a row counts as reached by every earlier row of
its pass that differs. Between passes the state is observed: as left, and as read.
"""

from typing import TYPE_CHECKING

import numpy as np

from layerdiff import flow as flows
from layerdiff.compare import ColumnDiff, State
from layerdiff.flow import Flow
from layerdiff.format.reader import Site
from layerdiff.vocabulary import Moment, Phase, Role

if TYPE_CHECKING:
    from layerdiff.trace import Tracer


class _StateWalk:
    """One state of a mixer, followed from pass to pass."""

    def __init__(self, tracer: "Tracer", site: Site) -> None:
        self.site = site
        self.current = flows.nothing(1)
        self.left: dict[int, Flow] = {}
        """By position, what passes left there: a later pass may go back to any of them."""
        self.diffs: dict[Moment, ColumnDiff] = {}
        looks = {m: tracer.cand.looks(site, m) for m in (Moment.IN, Moment.OUT)}
        restored = tracer.trace.breaches[site.index].restored
        if len(restored):
            looks = {Moment.RESTORED: restored, **looks}
        self.into = {moment: flows.nothing(tracer.size) for moment in looks}
        self.changed = {moment: tracer.changed(site, moment) for moment in looks}
        for moment, runs in looks.items():
            self.diffs[moment] = tracer.with_breaches(site, moment, runs)

    @property
    def clean(self) -> bool:
        return all(diff.clean for diff in self.diffs.values()) and not any(
            changed.mask.any() for changed in self.changed.values()
        )

    def judge(self, tracer: "Tracer") -> None:
        """Marks the state's columns, once however many sites read it."""
        if (self.site.index, Moment.IN) in tracer.trace.columns:
            return
        for moment, diff in self.diffs.items():
            tracer.judge(self.site, moment, diff, self.into[moment], self.changed[moment])

    def read(self, position: int) -> None:
        """A pass begins at *position* and reads the state."""
        self.current = flows.nothing(1) if position == 0 else self.left.get(position, self.current)
        if Moment.RESTORED in self.diffs:
            self._observe(Moment.RESTORED, position)
        self._observe(Moment.IN, position)

    def leave(self, position: int, incoming: Flow) -> None:
        """A pass that *incoming* came into ends at *position* and leaves the state."""
        self.current = incoming
        self._observe(Moment.OUT, position)
        self.left[position] = self.current

    def carry(self, start: int, rows: Flow) -> None:
        """What rows from *start* on hand to the states that their pass leaves on the way."""
        into, diff = self.into[Moment.OUT], self.diffs[Moment.OUT]
        inner = slice(start + 1, start + len(rows.bad))
        into.bad[inner] |= rows.bad[:-1]
        into.size[inner] = np.maximum(into.size[inner], rows.size[:-1])
        seen = np.isin(diff.state[inner], (State.AGREES, State.DIFFERS))
        for position in (np.flatnonzero(seen) + start + 1).tolist():
            here = slice(position, position + 1)
            self.left[position] = Flow(diff.differs[here], diff.relative[here])

    def _observe(self, moment: Moment, position: int) -> None:
        into, diff = self.into[moment], self.diffs[moment]
        if position >= len(into.bad):
            return
        into.bad[position] |= self.current.bad[0]
        into.size[position] = np.maximum(into.size[position], self.current.size[0])
        if diff.state[position] in (State.AGREES, State.DIFFERS):
            bad = diff.state[position] == State.DIFFERS
            self.current = Flow(np.array([bad]), diff.relative[position : position + 1])


def judge_mixer(tracer: "Tracer", site: Site) -> None:
    """Judges a mixer's rows and the states that it reads and leaves."""
    states = [
        _StateWalk(tracer, tracer.cand.dump.sites[index])
        for index in site.inputs
        if tracer.cand.dump.sites[index].kind.is_state
    ]
    hidden = tracer.incoming(site, running=False)
    rows = tracer.compare(
        site, tracer.cand.rows(site.index, Moment.COMPUTED), tracer.baseline_rows(site)
    )
    incoming = flows.nothing(tracer.size)
    if not (hidden.clean and rows.clean and all(state.clean for state in states)):
        _walk(tracer, states, hidden, rows, incoming)
    tracer.judge(site, Moment.COMPUTED, rows, incoming)
    tracer.trace.flows[site.index] = flows.onward(rows, incoming)
    for state in states:
        state.judge(tracer)


def judge_lone_state(tracer: "Tracer", site: Site) -> None:
    """Judges a state whose mixer's rows were not recorded."""
    state = _StateWalk(tracer, site)
    hidden, incoming = tracer.incoming(site, running=False), flows.nothing(tracer.size)
    if not (hidden.clean and state.clean):
        unseen = np.zeros(tracer.size, np.uint8), np.zeros(tracer.size, np.float32)
        _walk(tracer, [state], hidden, ColumnDiff(*unseen, 0), incoming)
    state.judge(tracer)


def _walk(
    tracer: "Tracer", states: list[_StateWalk], hidden: Flow, rows: ColumnDiff, incoming: Flow
) -> None:
    """Fills *incoming* and the states' own, pass by pass from the first that anything reaches."""
    seen = [hidden.bad, rows.differs]
    for state in states:
        seen += [diff.differs for diff in state.diffs.values()]
        seen += [changed.mask for changed in state.changed.values()]
    first = int(np.argmax(np.logical_or.reduce(seen)))
    steps = tracer.steps
    drafts = tracer.cand.dump.passes["phase"][steps.pass_index] == Phase.DRAFT
    for start, stop, draft in zip(steps.start, steps.stop, drafts, strict=True):
        # A drafter's pass over the same positions neither reads nor leaves the target's states.
        if stop < first or (draft and states[0].site.role is Role.TARGET):
            continue
        start, stop = int(start), min(int(stop), tracer.size)
        if start >= stop:
            continue
        for state in states:
            state.read(start)
        read = flows.merge(flows.nothing(1), *(state.current for state in states))
        ran = hidden.slice(start, stop).running()
        own = Flow(rows.differs[start:stop], rows.relative[start:stop])
        reached = flows.merge(ran, own.before(), read)
        incoming.bad[start:stop] |= reached.bad
        incoming.size[start:stop] = np.maximum(incoming.size[start:stop], reached.size)
        left = flows.merge(ran.worst(), own.worst(), read)
        on_the_way = flows.merge(ran, own.running(), read)
        for state in states:
            state.carry(start, on_the_way)
            state.leave(stop, left)
