"""What one control says of one origin: pure questions with yes, no, or None for not known."""

import numpy as np

from layerdiff.compare import State
from layerdiff.controls.cells import View, consumers, differing, view
from layerdiff.controls.plan import ControlRun
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.vocabulary import Mark, Moment


def repeats(control: ControlRun, facts: OriginFacts) -> bool | None:
    """Whether the origin's cells are the same in a repeat."""
    found = view(control, facts)
    if found is None:
        return None
    column = found.column(facts.site, facts.find.moment)
    if column is None:
        return None
    return not len(differing(column, facts.find.positions))


def noisy_site(control: ControlRun, facts: OriginFacts) -> int | None:
    """The first position where the origin's site differs between repeats with equal inputs."""
    found = view(control, facts)
    column = found.column(facts.site, facts.find.moment) if found else None
    if column is None:
        return None
    at = np.flatnonzero((column.mark == Mark.ORIGIN) & (column.diff.state == State.DIFFERS))
    return int(at[0]) if len(at) else None


def same_cell(control: ControlRun, facts: OriginFacts) -> bool | None:
    """Whether the control's arms agree at the origin's first cell."""
    found = view(control, facts)
    if found is None:
        return None
    state = found.state(facts.site, facts.find.moment, facts.find.position)
    if state in (State.AGREES, State.DIFFERS):
        return state is State.AGREES
    return None


def parts_there(control: ControlRun, facts: OriginFacts) -> bool:
    """Whether the control's arms part at the very cell, inputs agreeing."""
    found = view(control, facts)
    return found is not None and (
        found.mark(facts.site, facts.find.moment, facts.find.position) is Mark.ORIGIN
    )


def twin_origin(control: ControlRun, facts: OriginFacts) -> OriginFacts | None:
    """The control's own origin at the same cell."""
    return next(
        (
            other
            for other in control.comparison.facts
            if other is not None
            and (other.site.name, other.site.role) == (facts.site.name, facts.site.role)
            and other.find.moment is facts.find.moment
            and facts.find.position in other.find.positions
        ),
        None,
    )


def gone(control: ControlRun, facts: OriginFacts) -> bool | None:
    """Whether the origin and what it directly reaches agree in a control that removes its cause.

    A state that is not restored is never read, so what reads it decides as well.
    """
    found = view(control, facts)
    if found is None:
        return None
    known = _site_agrees(found, facts.site, facts.find.positions)
    followers = [
        _site_agrees(found, site, facts.find.positions)
        for site in consumers(facts.trace, facts.site)
    ]
    verdicts = [known, *followers]
    if any(verdict is False for verdict in verdicts):
        return False
    return True if any(verdict is True for verdict in verdicts) else None


def _site_agrees(found: View, site: Site, positions: np.ndarray) -> bool | None:
    seen = False
    for column in found.columns(site):
        if len(differing(column, positions)):
            return False
        inside = positions[positions < len(column.diff.state)]
        seen |= bool((column.diff.state[inside] == State.AGREES).any())
    return True if seen else None


def cached_inputs(facts: OriginFacts) -> list[Site]:
    """The states and cached rows that the origin's site reads."""
    site = facts.site
    inputs = [facts.lines[1].dump.sites[index] for index in site.inputs]
    found = [other for other in inputs if other.kind.is_state or other.kind.is_kv]
    return [site, *found] if site.kind.is_state else found


def reads_what_was_restored(control: ControlRun, facts: OriginFacts) -> bool | None:
    """Whether overwriting what a layer restored changes what the origin's site computes.

    A state fades, so every row from the origin's pass on counts, not only the origin's. None where
    the poison did not reach an input of the site, or the site was not seen.
    """
    found = view(control, facts)
    if found is None or not any(
        bool(column.diff.differs.any())
        for site in cached_inputs(facts)
        for column in found.columns(site)
        if column.moment is Moment.IN
    ):
        return None
    rows = found.column(facts.site, _computed(facts))
    if rows is None:
        return None
    after = rows.diff.state[pass_start(facts) :]
    if (after == State.DIFFERS).any():
        return True
    return False if (after == State.AGREES).any() else None


def pass_start(facts: OriginFacts) -> int:
    """Where the pass begins that made the origin's cell."""
    index, steps = facts.pass_of(1), facts.trace.steps
    if index is None or steps is None:
        return facts.find.position
    starts = steps.start[steps.pass_index == index]
    return int(starts.min()) if len(starts) else facts.find.position


def _computed(facts: OriginFacts) -> Moment:
    return Moment.OUT if facts.site.kind.is_state else Moment.COMPUTED
