"""Causes that recorded facts show and whose own effect another difference hides.

Where what comes in differs already, bits cannot tell whether a site adds a difference of its own.
What was recorded of the site can: another kernel, other launch facts, another chunk grid, rows of
another writer.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from layerdiff.comparison import Comparison
from layerdiff.format.reader import Dump
from layerdiff.format.records import Event, Kernel, Site
from layerdiff.lineage import Line
from layerdiff.model import Masked, Origin
from layerdiff.segments import expand
from layerdiff.trace import Column, Trace
from layerdiff.vocabulary import Cause, EventKind, Mark, Moment, Phase, Role

_FACTS = {
    "mask": Cause.MASK_SEAM,
    "rope_base": Cause.ROPE_REGIME,
    "rope_scaling": Cause.ROPE_REGIME,
    "mode": Cause.COMPILE_MODE,
}
"""Launch facts that are a cause by themselves where they differ."""


def find_masked(main: Comparison, origins: Sequence[Origin]) -> tuple[Masked, ...]:
    """What differs between the arms by recorded facts alone, behind an origin; each cause once."""
    if not origins:
        return ()
    named = {origin.cause for origin in origins} | {c for o in origins for c in o.also}
    found: dict[tuple[Cause, str], Masked] = {}
    for pair in main.pairs:
        for masked in (*_kernels(pair.trace, origins), *_drafts(pair.trace, origins)):
            if masked.cause not in named:
                found.setdefault((masked.cause, masked.role), masked)
    return tuple(found.values())


def _kernels(trace: Trace, origins: Sequence[Origin]) -> Iterator[Masked]:
    """Sites that inherit a difference and were launched otherwise as well."""
    twins = {(site.name, site.role): site for site in trace.baseline.dump.sites}
    for site in trace.order:
        column = trace.columns.get((site.index, Moment.COMPUTED))
        twin = twins.get((site.name, site.role))
        if column is None or twin is None or not (column.mark == Mark.INHERITED).any():
            continue
        for position, ours, theirs in _launches(trace, column, twin):
            for cause, fact in _unlike(ours, theirs):
                yield _masked(cause, fact, site, position, origins)


def _launches(
    trace: Trace, column: Column, twin: Site
) -> Iterator[tuple[int, tuple[Kernel, int], tuple[Kernel, int]]]:
    """Positions where a pair of launches is met for the first time: (kernel, pass start) each."""
    at = np.flatnonzero(column.mark == Mark.INHERITED)
    sides = [
        _seen(line, site)
        for line, site in ((trace.candidate, column.site), (trace.baseline, twin))
    ]
    ours, theirs = (np.array([side.get(int(p), -1) for p in at], np.int64) for side in sides)
    both = np.flatnonzero((ours >= 0) & (theirs >= 0))
    pairs = np.stack([ours[both], theirs[both]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    for index in np.sort(first).tolist():
        position = int(at[both[index]])
        mine = _launch(trace.candidate, int(pairs[index, 0]))
        other = _launch(trace.baseline, int(pairs[index, 1]))
        if mine is not None and other is not None:
            yield position, mine, other


def _seen(line: Line, site: Site) -> dict[int, int]:
    """Observation of each position, the last one counting."""
    cells = expand(line.rows(site.index, Moment.COMPUTED))
    return dict(zip(cells.position.tolist(), cells.observation.tolist(), strict=True))


def _launch(line: Line, observation: int) -> tuple[Kernel, int] | None:
    dump, record = line.dump, line.dump.observations[observation]
    if int(record["kernel"]) >= len(dump.kernels):
        return None
    spans = dump.rowset(int(dump.passes[int(record["pass_index"])]["rowset"]))
    members = [part.request for part in line.parts]
    starts = spans["start"][np.isin(spans["request"], members)]
    return dump.kernels[int(record["kernel"])], int(starts.min()) if len(starts) else 0


def _unlike(ours: tuple[Kernel, int], theirs: tuple[Kernel, int]) -> Iterator[tuple[Cause, str]]:
    (kernel, start), (other, began) = ours, theirs
    for name, cause in _FACTS.items():
        values = kernel.facts.get(name), other.facts.get(name)
        if None not in values and values[0] != values[1]:
            yield cause, f"{name} is {values[0]} (baseline: {values[1]})"
    if kernel.name != other.name:
        yield (
            Cause.KERNEL_MISMATCH,
            f"the candidate ran {kernel.name}, the baseline {other.name}",
        )
    chunk = kernel.facts.get("chunk")
    if not isinstance(chunk, int) or chunk <= 0 or chunk != other.facts.get("chunk"):
        return
    if start % chunk and not began % chunk:
        yield (
            Cause.SHAPE_DISPATCH,
            f"the candidate's pass begins at {start}, off the kernel's grid of {chunk}; the "
            f"baseline's at {began}, on it",
        )


def _drafts(trace: Trace, origins: Sequence[Origin]) -> Iterator[Masked]:
    """Drafter rows that a request took over from a pass that was drafting."""
    line, dump = trace.candidate, trace.candidate.dump
    sites = [s for s in trace.order if s.role is Role.DRAFTER and s.kind.is_kv]
    if not sites:
        return
    groups = _drafter_groups(dump, sites)
    for event in dump.events:
        if (
            event.kind is EventKind.KV_READ
            and event.request == line.request
            and event.text in groups
            and event.source_pass is not None
            and event.start is not None
            and Phase(int(dump.passes[event.source_pass]["phase"])) is Phase.DRAFT
            and event.start < line.hit
        ):
            fact = (
                f"drafter rows from {event.start} on were written by pass {event.source_pass} "
                "while it was drafting, not from the target's hidden rows"
            )
            yield _masked(Cause.DRAFTER_STATE, fact, sites[0], event.start, origins)
            return


def _drafter_groups(dump: Dump, sites: Sequence[Site]) -> set[str]:
    """Cache groups whose rows only passes of the drafter's sites write."""
    observed = dump.observations
    passes = set(
        observed["pass_index"][np.isin(observed["site"], [s.index for s in sites])].tolist()
    )
    writes: Mapping[str, list[Event]] = _by_text(dump, EventKind.KV_WRITE)
    return {
        text
        for text, events in writes.items()
        if all(e.pass_index in passes for e in events)
        and any(_drafting(dump, e.pass_index) for e in events)
    }


def _drafting(dump: Dump, pass_index: int) -> bool:
    return Phase(int(dump.passes[pass_index]["phase"])) is Phase.DRAFT


def _by_text(dump: Dump, kind: EventKind) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in dump.events:
        if event.kind is kind:
            found.setdefault(event.text, []).append(event)
    return found


def _masked(
    cause: Cause, fact: str, site: Site, position: int, origins: Sequence[Origin]
) -> Masked:
    """By the best-ranked origin at or before the position, else by the first."""
    before = [o.rank for o in origins if o.position <= position and o.site != site.name]
    return Masked(
        cause=cause,
        fact=fact,
        role=site.role.word,
        layer_index=site.layer_index,
        site=site.name,
        position=position,
        masked_by=min(before, default=origins[0].rank),
    )
