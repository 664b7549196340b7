"""What one control says of one origin: pure questions with yes, no, or None for not known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.compare import State
from layerdiff.controls.cells import View, consumers, differing, view
from layerdiff.controls.plan import ControlRun
from layerdiff.facts import OriginFacts
from layerdiff.flow import JUMP_RATIO
from layerdiff.format.records import Site
from layerdiff.launched import launch_at
from layerdiff.segments import expand
from layerdiff.vocabulary import Mark, Moment, TensorKind


@dataclass(frozen=True, slots=True)
class Noise:
    """Where an origin's site parts between repeats although its inputs agree."""

    position: int
    same_launch: bool
    """Whether the repeats ran the same chunk, hit, kernel and launch facts there."""
    as_large: bool
    """Whether it is of the origin's size: in its very cells, or as large as they are."""


def repeats(control: ControlRun, facts: OriginFacts) -> bool | None:
    """Whether the origin's cells are the same in a repeat."""
    found = view(control, facts)
    column = found.column(facts.site, facts.find.moment) if found else None
    if column is None:
        return None
    return not len(differing(column, facts.find.positions))


def noise(control: ControlRun, facts: OriginFacts) -> Noise | None:
    """What repeats show of the origin's site; None where they agree wherever inputs do."""
    found = view(control, facts)
    column = found.column(facts.site, facts.find.moment) if found else None
    if found is None or column is None:
        return None
    at = np.flatnonzero((column.mark == Mark.ORIGIN) & (column.diff.state == State.DIFFERS))
    if not len(at):
        return None
    own = at[np.isin(at, facts.find.positions)]
    first = int(own[0] if len(own) else at[0])
    site = (facts.site.name, facts.site.role)
    sides = [
        launch_at(line, site, facts.find.moment, first)
        for line in (found.trace.baseline, found.trace.candidate)
    ]
    same = sides[0] is not None and sides[1] is not None and sides[0].same_as(sides[1])
    sizes = column.diff.relative[own if len(own) else at]
    return Noise(first, same, _as_large(sizes, facts.find.relative))


def _as_large(noise_sizes: NDArray[np.float32], size: float) -> bool:
    """Whether noise may be what an origin of that size is; without sizes it may."""
    if np.isnan(size) or np.isnan(noise_sizes).any():
        return True
    return bool(float(noise_sizes.max()) * JUMP_RATIO >= size)


def same_cell(control: ControlRun, facts: OriginFacts) -> bool | None:
    """Whether the control's arms agree at the origin's first cell."""
    found = view(control, facts)
    if found is None:
        return None
    state = found.state(facts.site, facts.find.moment, facts.find.position)
    if state in (State.AGREES, State.DIFFERS):
        return state is State.AGREES
    return None


def same_chunk(control: ControlRun, facts: OriginFacts) -> bool:
    """Whether the control's own run computed the origin's cell in the candidate's chunk."""
    found = view(control, facts)
    if found is None:
        return False
    site, at = (facts.site.name, facts.site.role), facts.find.position
    ours = launch_at(facts.lines[1], site, facts.find.moment, at)
    theirs = launch_at(found.trace.candidate, site, facts.find.moment, at)
    return ours is not None and theirs is not None and ours.same_chunk(theirs)


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


def _site_agrees(found: View, site: Site, positions: NDArray[np.int64]) -> bool | None:
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


def reads(control: ControlRun, facts: OriginFacts, cached: Site) -> bool | None:
    """Whether overwriting one cached input changes what the origin's site computes.

    A state fades and a window moves on, so every row behind the hit counts, not only the origin's.
    None where the poison did not reach that input, or reached another state of the site as well:
    then it does not tell which of them was read. Rows that are not attended to may be overwritten
    without a trace, so only a state can be shown to be ignored.
    """
    found = view(control, facts)
    if found is None:
        return None
    touched = [
        site
        for site in cached_inputs(facts)
        if any(
            column.moment is Moment.IN and not column.diff.clean for column in found.columns(site)
        )
    ]
    if cached not in touched or any(s.kind.is_state for s in touched if s is not cached):
        return None
    if facts.site.kind is TensorKind.CONV_STATE:
        return None  # What it holds is the last few inputs: soon nothing of what was restored.
    made = Moment.OUT if facts.site.kind.is_state else Moment.COMPUTED
    rows = found.column(facts.site, made)
    if rows is None:
        return None
    behind = rows.diff.state[facts.lines[1].hit :]
    if (behind == State.DIFFERS).any():
        return True
    untouched = (behind == State.AGREES).any() and cached.kind.is_state
    return False if untouched and _wholly_overwritten(control, found, cached) else None


def _wholly_overwritten(control: ControlRun, found: View, cached: Site) -> bool:
    """Whether every part of a state, such as each column of a convolution's, was overwritten."""
    column = found.column(cached, Moment.IN)
    if column is None or column.diff.clean:
        return False
    at, arms = int(np.argmax(column.diff.differs)), control.comparison
    values = []
    for line, arm in (
        (found.trace.baseline, arms.baseline),
        (found.trace.candidate, arms.candidate),
    ):
        twin = next((s for s in line.dump.sites if s.name == cached.name), None)
        if twin is None:
            return False
        cells = expand(line.looks(twin, Moment.IN).clip(at, at + 1))
        if not len(cells):
            return False
        values.append(arm.store.digests(cells.first[-1:], int(cells.parts[-1])))
    return values[0].shape == values[1].shape and bool((values[0] != values[1]).all())


def pass_start(facts: OriginFacts) -> int:
    """Where the pass begins that made the origin's cell."""
    index, steps = facts.pass_of(1), facts.trace.steps
    if index is None or steps is None:
        return facts.find.position
    starts = steps.start[steps.pass_index == index]
    return int(starts.min()) if len(starts) else facts.find.position
