"""The drafter's own context: wrong although everything that the target computed agrees."""

import numpy as np

from layerdiff.causes.ruling import Ruling
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.flow import JUMP_RATIO
from layerdiff.incoming import beyond_rounding
from layerdiff.launch import given
from layerdiff.rounds import accepted_rounds, offsets
from layerdiff.vocabulary import Cause, Moment, Role, TensorKind

_CONTEXT = ("anchor", "kv_len")
"""Kernel facts that say what a drafter looks back on."""


def drafter_state(facts: OriginFacts) -> Ruling | None:
    """drafter-state: the target agrees; the drafter's rows, KV, anchor or count do not."""
    if facts.site.role is not Role.DRAFTER:
        return None
    compared, differing, apart = _target(facts)
    rounding = facts.find.jump and facts.find.relative > JUMP_RATIO * apart
    if differing is not None and not rounding:
        return Ruling(Cause.DRAFTER_STATE, False, f"the target differs too, at {differing}")
    if not compared:
        return None
    found = _cached(facts) or _hidden(facts) or _told(facts) or _missing(facts) or _counts(facts)
    if found is None:
        words = "what the drafter was given agrees: what differs is made by a kernel of it"
        return Ruling(Cause.DRAFTER_STATE, False, words)
    agree = f"all {compared} cells of the target up to there agree"
    if differing is not None:
        agree = f"the target up to there differs by {apart:.1e} at most, and it by far more"
    words = f"{agree}; {found}"
    return Ruling(Cause.DRAFTER_STATE, True, words)


def _target(facts: OriginFacts) -> tuple[int, str | None, float]:
    """Cells of the target up to the origin that agree, a site that differs, and by how much.

    Infinitely far where sketches do not tell.
    """
    compared, differing, apart = 0, None, 0.0
    for column in facts.trace.columns.values():
        if column.site.role is Role.TARGET:
            state = column.diff.state[: facts.find.position + 1]
            compared += int((state == State.AGREES).sum())
            bad = state == State.DIFFERS
            if bad.any():
                differing = differing or column.site.name
                far = column.diff.relative[: len(bad)][bad].max()
                apart = max(apart, np.inf if np.isnan(far) else float(far))
    return compared, differing, apart


def _cached(facts: OriginFacts) -> str | None:
    """The drafter's KV or state as found in its cache."""
    kind = facts.site.kind
    if not (kind.is_kv or kind.is_state) or facts.find.moment in (Moment.COMPUTED, Moment.OUT):
        return "its cache was changed" if facts.find.breach else None
    return f"the drafter's {kind.word.replace('_', ' ')} as read does not"


def _hidden(facts: OriginFacts) -> str | None:
    """The rows that the drafter starts from."""
    if facts.site.kind is not TensorKind.DRAFTER_HIDDEN or beyond_rounding(facts) is False:
        return None
    return "the hidden rows that the drafter was given do not"


def _told(facts: OriginFacts) -> str | None:
    """What a kernel of the drafter was told of its context."""
    for name in _CONTEXT:
        told = given(facts, name)
        if told is not None and told.differs:
            words = f"{name.replace('_', ' ')} is {told.candidate}"
            return f"the drafter's {words} and {told.baseline} in the baseline"
    base, cand = (offsets(line, Role.DRAFTER) for line in facts.lines)
    for at in sorted(base.keys() & cand.keys()):
        if at[1] <= facts.find.position and base[at] != cand[at]:
            words = f"held {cand[at]} rows before the pass at {at[1]}"
            return f"the drafter's cache {words}, and {base[at]} in the baseline"
    return None


def _missing(facts: OriginFacts) -> str | None:
    """Rows of the drafter's KV that the baseline has and the candidate never had."""
    inputs = [facts.lines[1].dump.sites[index] for index in facts.site.inputs]
    for site in inputs:
        made = facts.trace.columns.get((site.index, Moment.COMPUTED))
        if not site.kind.is_kv or made is None:
            continue
        lacking = made.diff.state[: facts.find.position + 1] == State.BASELINE_ONLY
        read = facts.trace.columns.get((site.index, Moment.IN))
        if read is not None:
            lacking = lacking & (read.diff.state[: len(lacking)] == State.ABSENT)
        if lacking.any():
            first = int(np.flatnonzero(lacking)[0])
            return f"{int(lacking.sum())} rows of the drafter's KV, from {first} on, are not there"
    return None


def _counts(facts: OriginFacts) -> str | None:
    """Drafts accepted in an earlier round."""
    base, cand = (accepted_rounds(line) for line in facts.lines)
    for start in sorted(base.keys() & cand.keys()):
        if start <= facts.find.position and base[start] != cand[start]:
            words = f"of the drafts at {start}, {cand[start]} were accepted"
            return f"{words}, and {base[start]} in the baseline"
    return None
