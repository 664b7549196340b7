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
from layerdiff.launched import launch_at
from layerdiff.lineage import Line
from layerdiff.model import Masked, Origin
from layerdiff.pairing import common_prefix
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


def find_masked(
    main: Comparison, origins: Sequence[Origin], split: Comparison | None = None
) -> tuple[Masked, ...]:
    """What differs between the arms by recorded facts alone, behind an origin; each cause once.

    Args:
        split: A cold run in the candidate's chunks against the candidate: a fact that both were
            told follows from the chunk, and is no cause.
    """
    if not origins:
        return ()
    named = {origin.cause for origin in origins} | {c for o in origins for c in o.also}
    found: dict[tuple[Cause, str], Masked] = {}
    for pair in main.pairs:
        for masked in (*_kernels(pair.trace, origins), *_drafts(pair.trace, origins)):
            if masked.cause not in named and not _follows_from_chunk(masked, split):
                found.setdefault((masked.cause, masked.role), masked)
    return tuple(found.values())


def _follows_from_chunk(masked: Masked, split: Comparison | None) -> bool:
    """Whether the same chunks without reuse were launched alike where the arms were not."""
    names = [name for name, cause in _FACTS.items() if cause is masked.cause]
    if split is None or not (names or masked.cause is Cause.KERNEL_MISMATCH):
        return False
    site = (masked.site, Role[masked.role.upper()])
    for pair in split.pairs:
        kernels = [
            None if launch is None else launch.kernel
            for line in (pair.trace.baseline, pair.trace.candidate)
            for launch in [launch_at(line, site, Moment.COMPUTED, masked.position)]
        ]
        if None not in kernels:
            told = [[k.facts.get(n) for n in names] if names else [k.name] for k in kernels if k]
            return told[0] == told[1]
    return False


def _kernels(trace: Trace, origins: Sequence[Origin]) -> Iterator[Masked]:
    """Sites that inherit a difference and were launched otherwise as well."""
    twins = {(site.name, site.role): site for site in trace.baseline.dump.sites}
    chosen = {
        (o.kernel.baseline.name, o.kernel.candidate.name)
        for o in origins
        if o.kernel.baseline is not None and o.kernel.candidate is not None
    }
    for site in trace.order:
        column = trace.columns.get((site.index, Moment.COMPUTED))
        twin = twins.get((site.name, site.role))
        if column is None or twin is None or not (column.mark == Mark.INHERITED).any():
            continue
        for position, ours, theirs in _launches(trace, column, twin):
            # Why these two kernels ran was decided at an origin already.
            same = (theirs[0].name, ours[0].name) in chosen
            for cause, fact in _unlike(ours, theirs, named=same):
                yield _masked(cause, fact, (trace, site), position, origins)


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


def _unlike(
    ours: tuple[Kernel, int], theirs: tuple[Kernel, int], *, named: bool
) -> Iterator[tuple[Cause, str]]:
    """What differs between two launches.

    Args:
        named: Whether an origin shows these two kernels.
    """
    (kernel, start), (other, began) = ours, theirs
    for name, cause in _FACTS.items():
        values = kernel.facts.get(name), other.facts.get(name)
        if None not in values and values[0] != values[1]:
            yield cause, f"{name} is {values[0]} (baseline: {values[1]})"
    if kernel.name != other.name and not named:
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
    """Drafter rows that a request took over, and that are not those of its own context."""
    line, dump = trace.candidate, trace.candidate.dump
    sites = [s for s in trace.order if s.role is Role.DRAFTER and s.kind.is_kv]
    groups = _drafter_groups(dump, sites) if sites else {}
    for event in dump.events:
        if event.kind is not EventKind.KV_READ or event.request != line.request:
            continue
        if event.text not in groups or event.start is None or event.start >= line.hit:
            continue
        found = _other_text(dump, event) or _provisional(dump, event, groups[event.text])
        if found is not None:
            yield _masked(Cause.DRAFTER_STATE, found[1], (trace, sites[0]), found[0], origins)
            return


def _other_text(dump: Dump, event: Event) -> tuple[int, str] | None:
    """The first row that was written under other tokens than the reader's."""
    if event.source_request is None or event.request is None or event.start is None:
        return None
    chains = [dump.chain(request)[1] for request in (event.source_request, event.request)]
    first = max(event.start, common_prefix(*chains))
    if first >= (event.start + 1 if event.stop is None else event.stop):
        return None
    name = dump.requests[event.source_request].name
    return first, f"drafter rows from {first} on are those of request {name!r}, of other tokens"


def _provisional(dump: Dump, event: Event, apart: bool) -> tuple[int, str] | None:
    """Rows of a drafting pass, where an engine makes those of the context in other passes."""
    if event.source_pass is None or event.start is None or not apart:
        return None
    if not _drafting(dump, event.source_pass):
        return None
    return event.start, (
        f"drafter rows from {event.start} on were written by pass {event.source_pass} while it "
        "was drafting, not from the target's hidden rows"
    )


def _drafter_groups(dump: Dump, sites: Sequence[Site]) -> dict[str, bool]:
    """Cache groups whose rows only passes of the drafter's sites write.

    With each, whether passes that do not draft write rows of it too.
    """
    observed = dump.observations
    passes = set(
        observed["pass_index"][np.isin(observed["site"], [s.index for s in sites])].tolist()
    )
    writes: Mapping[str, list[Event]] = _by_text(dump, EventKind.KV_WRITE)
    return {
        text: not all(_drafting(dump, e.pass_index) for e in events)
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
    cause: Cause, fact: str, column: tuple[Trace, Site], position: int, origins: Sequence[Origin]
) -> Masked:
    """By the best-ranked origin that may reach the position of a site, else by the first."""
    trace, site = column
    depth = {(other.name, other.role.word): at for at, other in enumerate(trace.order)}
    own = depth[site.name, site.role.word]
    before = [
        origin.rank
        for origin in origins
        if origin.position <= position and depth.get((origin.site, origin.role), own + 1) <= own
    ]
    return Masked(
        cause=cause,
        fact=fact,
        role=site.role.word,
        layer_index=site.layer_index,
        site=site.name,
        position=position,
        masked_by=min(before, default=origins[0].rank),
    )
