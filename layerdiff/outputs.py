"""What both arms gave out: sampled tokens, accepted drafts, logits, top-k choices."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layerdiff.choices import same_choices
from layerdiff.compare import State
from layerdiff.format.records import Site
from layerdiff.lineage import Line
from layerdiff.model import Outputs
from layerdiff.pairing import PairKind, common_prefix
from layerdiff.rounds import accepted_rounds
from layerdiff.segments import Cells, expand
from layerdiff.trace import Column, Trace
from layerdiff.vocabulary import Moment, Role, TensorKind

if TYPE_CHECKING:
    from layerdiff.comparison import PairTrace


def compare_outputs(pairs: "Sequence[PairTrace]", *, cells_differ: bool) -> Outputs | None:
    """What the arms gave out, or None where no output was recorded in both.

    Args:
        cells_differ: Whether any compared cell differs, for what equal tokens are worth.
    """
    own = [pair for pair in pairs if pair.pair.kind is not PairKind.PREFIX]
    tokens = [_generated(pair.trace) for pair in own]
    compared = sum(count for count, _ in tokens)
    flips = [at for _, at in tokens if at is not None]
    accepted = _accepted(own)
    logits = [_counts(column, pair) for pair in own for column in _heads(pair.trace)]
    rows, differing = (sum(found) for found in zip(*logits, strict=True)) if logits else (0, 0)
    topk = next((word for pair in own if (word := _choice(pair.trace)) is not None), None)
    if not compared and not rows and accepted is None:
        return None
    found = Outputs(
        tokens_compared=compared,
        texts_differ=len(flips),
        first_flip=min(flips, default=None),
        accepted_differ=accepted,
        logits_compared=rows,
        logits_differ=differing,
        topk=topk,
        says="",
    )
    return _said(found, cells_differ=cells_differ)


def top1_flips(trace: Trace, position: int) -> int | None:
    """Positions from *position* on where the best token differs; None if neither was recorded.

    Where the first choice was recorded for every row, rows are counted; else sampled tokens, of
    which the first that differs ends the comparison.
    """
    for column in trace.columns.values():
        if _is_choice(trace, column.site) and _width(trace.candidate, column.site) == 1:
            return int((column.diff.state[position:] == State.DIFFERS).sum())
    compared, flip = _generated(trace)
    if not compared:
        return None
    # The logits of a row give the token after it.
    return int(flip is not None and flip > position)


def _generated(trace: Trace) -> tuple[int, int | None]:
    """Generated tokens compared, and the position of the first one that differs."""
    chains, given = [], 0
    for line in (trace.baseline, trace.candidate):
        _, chain, by_user = line.dump.chain(line.request)
        chains.append(chain)
        given = max(given, int(np.argmin(np.append(by_user, False))))
    shared, length = common_prefix(*chains), min(len(chain) for chain in chains)
    if shared < given:
        return 0, None
    return min(shared + 1, length) - given, shared if shared < length else None


def _accepted(pairs: "Sequence[PairTrace]") -> int | None:
    """Rounds of drafts that both arms ran from the same position, and accepted unlike."""
    differing, both = 0, False
    for pair in pairs:
        base, cand = (accepted_rounds(x) for x in (pair.trace.baseline, pair.trace.candidate))
        both |= bool(base and cand)
        differing += sum(base[start] != cand[start] for start in base.keys() & cand.keys())
    return differing if both else None


def _heads(trace: Trace) -> list[Column]:
    """The last logits of the target: what the engine samples from."""
    columns = [
        trace.columns[site.index, Moment.COMPUTED]
        for site in trace.order
        if site.kind is TensorKind.LOGITS
        and site.role is Role.TARGET
        and (site.index, Moment.COMPUTED) in trace.columns
    ]
    return columns[-1:]


def _counts(column: Column, pair: "PairTrace") -> tuple[int, int]:
    """Rows of logits compared and differing, each judged in one pair only."""
    state = column.diff.state[pair.own_from :]
    differing = int((state == State.DIFFERS).sum())
    return differing + int((state == State.AGREES).sum()), differing


def _choice(trace: Trace) -> str | None:
    """What the first top-k over logits that differs came to."""
    for column in trace.columns.values():
        at = np.flatnonzero(column.diff.differs)
        if _is_choice(trace, column.site) and len(at):
            position = int(at[0])
            same = _same_set(trace, column.site, position)
            if same is False:
                return "flip"
            if _logits_differ(trace, column.site, position):
                return "shift"
            return "reorder" if same else None
    for column in _heads(trace):
        chosen = any(_is_choice(trace, other.site) for other in trace.columns.values())
        if chosen and not column.diff.clean:
            return "shift"
    return None


def _is_choice(trace: Trace, site: Site) -> bool:
    """Whether a site holds the best tokens of each row of logits."""
    sites = trace.candidate.dump.sites
    return (
        site.kind is TensorKind.TOPK
        and site.role is Role.TARGET
        and site.layer_index is None
        and any(sites[index].kind is TensorKind.LOGITS for index in site.inputs)
    )


def _logits_differ(trace: Trace, site: Site, position: int) -> bool:
    columns = (trace.columns.get((index, Moment.COMPUTED)) for index in site.inputs)
    return any(
        column is not None and column.diff.state[position] == State.DIFFERS for column in columns
    )


def _same_set(trace: Trace, site: Site, position: int) -> bool | None:
    """Whether the same tokens are chosen, by a site that sorts them by id or by their elements."""
    for column in trace.columns.values():
        if column.site.kind is TensorKind.TOPK and column.site.inputs == (site.index,):
            state = State(int(column.diff.state[position]))
            return state is State.AGREES if state >= State.AGREES else None
    twins = (
        other
        for other in trace.baseline.dump.sites
        if (other.name, other.role) == (site.name, site.role)
    )
    theirs = [_last(trace.baseline, twin, position) for twin in twins]
    if not theirs:
        return None
    ours = _last(trace.candidate, site, position)
    return same_choices(trace.baseline.dump, theirs[0], trace.candidate.dump, ours)


def _last(line: Line, site: Site, position: int) -> Cells:
    found = expand(line.rows(site.index, Moment.COMPUTED).clip(position, position + 1))
    return found.take(slice(max(len(found) - 1, 0), len(found)))


def _width(line: Line, site: Site) -> int | None:
    """Choices in a row of a site, by its first observation."""
    observations = line.dump.observations
    for record in observations[observations["site"] == site.index]:
        if record["rows"]:
            return int(np.prod(line.dump.shape(int(record["shape"])), dtype=np.int64))
    return None


_CHOICES = {
    "reorder": "the best tokens are the same in another order: ties, no shift of values",
    "shift": "logits shifted: more than the order of ties",
    "flip": "other tokens are among the best",
}


def _said(found: Outputs, *, cells_differ: bool) -> Outputs:
    """The same with its words."""
    parts = []
    if found.first_flip is not None:
        parts.append(f"the generated token at position {found.first_flip} differs")
    elif found.tokens_compared:
        differ = cells_differ or found.logits_differ > 0 or bool(found.accepted_differ)
        text = "the text is the same in both arms"
        parts.append(f"{text}: no evidence, since bits differ" if differ else text)
    if found.logits_compared:
        parts.append(f"{found.logits_differ} of {found.logits_compared} rows of logits differ")
    if found.accepted_differ:
        parts.append(f"{found.accepted_differ} rounds accepted another number of drafts")
    if found.topk is not None:
        parts.append(_CHOICES[found.topk])
    return replace(found, says="; ".join(parts))
