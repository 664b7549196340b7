"""What the detail pane says about a cell of a pair."""

import math

import numpy as np

from layerdiff.compare import State
from layerdiff.comparison import Comparison, PairTrace
from layerdiff.format.records import Site
from layerdiff.lineage import Steps
from layerdiff.model import Origin
from layerdiff.render.text import place
from layerdiff.sketch import FLOOR
from layerdiff.vocabulary import Level, Mark, Moment, OriginKind, SizeClass
from layerdiff_tui import details
from layerdiff_tui.cells import CellRecord, fetch
from layerdiff_tui.details import Detail, Fact, Heading, Lines, Sides, mark_fact
from layerdiff_tui.marks import PAIR_SIGNS, Tone
from layerdiff_tui.rows import Column, Row, short_names


class PairDetails:
    """Describes the cells of one pair.

    Args:
        steps: The passes of the baseline's line and of the candidate's.
    """

    def __init__(
        self, comparison: Comparison, pair: PairTrace, steps: tuple[Steps, Steps]
    ) -> None:
        self._stores = comparison.baseline.store, comparison.candidate.store
        self._lines = pair.trace.baseline, pair.trace.candidate
        self._pair = pair
        self._steps = steps
        base = comparison.baseline.dump.sites
        self._twins = {(site.name, site.role): site for site in base}

    def describe(
        self,
        row: Row,
        position: int,
        span: tuple[int, int],
        origin: Origin | None,
    ) -> Detail:
        """The site that a row shows at a position, and how its other sites are.

        Args:
            span: The positions of the cell on the screen, half-open.
            origin: What the report says of it.
        """
        chosen = row.column_at(position)
        mark = Mark(int(chosen.marks[position]))
        site, moment = chosen.site, chosen.moment
        sides = self._both(chosen, position)
        state = site.kind.is_state
        lines: Lines = [
            mark_fact(PAIR_SIGNS[mark]),
            Fact("position", details.position_words(site, position)),
        ]
        if span[1] - span[0] > 1:
            lines.append(Fact("cell", f"{details.span_words(*span)}, {position} is the worst"))
        lines += self._difference(chosen, position, sides)
        lines += [
            Fact("tensor", f"{site.kind.word}, {details.moment_words(moment, state=state)}"),
            Fact("layer", details.layer_words(site)),
        ]
        lines += self._inputs(site, position)
        if origin is not None:
            lines += origin_lines(origin)
        if len(row.columns) > 1:
            lines += details.site_lines(row.columns, position, PAIR_SIGNS)
        lines += self._passes(site, position, sides)
        lines += _kernels(sides, (self._chunk(0, sides[0]), self._chunk(1, sides[1])))
        if state or site.kind.is_kv:
            lines += self._moments(chosen, position)
        return Detail(site.name, PAIR_SIGNS[mark], tuple(lines))

    def _both(self, column: Column, position: int) -> tuple[CellRecord | None, CellRecord | None]:
        """The cell of each arm; the baseline's at another moment if it has none at this one."""
        site, moment = column.site, column.moment
        if column.baseline_only:
            return fetch(self._lines[0], self._stores[0], site, (moment,), position), None
        moments = [moment]
        if site.kind.is_state:
            moments += [Moment.OUT, Moment.IN]
        elif site.kind.is_kv:
            moments += [Moment.COMPUTED, Moment.IN]
        twin = self._twins.get((site.name, site.role))
        base = None
        if twin is not None:
            base = fetch(self._lines[0], self._stores[0], twin, tuple(moments), position)
        return base, fetch(self._lines[1], self._stores[1], site, (moment,), position)

    def _difference(
        self, column: Column, position: int, sides: tuple[CellRecord | None, CellRecord | None]
    ) -> Lines:
        base, cand = sides
        part = 0
        lines: Lines = []
        if base and cand and len(base.digests) == len(cand.digests) > 1:
            apart = np.flatnonzero(base.digests != cand.digests)
            if len(apart):
                part = int(apart[0])
                words = details.parts_words(apart, len(base.digests))
                lines.append(Fact("parts", f"{words} differ"))
        digests = [
            details.hex_digest(side.digests if side else None, part if side else 0)
            for side in sides
        ]
        lines.insert(0, Sides("digest", *digests))
        judged = self._pair.trace.columns.get((column.site.index, column.moment))
        if judged is not None and not column.baseline_only:
            if judged.diff.state[position] == State.DIFFERS:
                against = "the baseline's norm" if base else "what the same arm left here"
                by = _relative(float(judged.diff.relative[position]), against)
                lines.append(Fact("difference", by))
            lines += self._breach(column, position)
        return lines

    def _breach(self, column: Column, position: int) -> Lines:
        breaches = self._pair.trace.breaches.get(column.site.index)
        if breaches is None or not breaches.at(column.moment, position + 1).mask[position]:
            return []
        return [Fact("changed", "not the bits that the same arm last saw here", Tone.ORIGIN)]

    def _inputs(self, site: Site, position: int) -> Lines:
        sites = self._lines[1].dump.sites
        inputs = [sites[index] for index in site.inputs if index < len(sites)]
        words = []
        for other, name in zip(inputs, short_names(inputs), strict=True):
            moment = Moment.IN if other.kind.is_state else Moment.COMPUTED
            column = self._pair.trace.columns.get((other.index, moment))
            mark = Mark(int(column.mark[position])) if column is not None else Mark.ABSENT
            words.append(f"{name} {mark.sign}" if mark.sign.strip() else name)
        return [Fact("inputs", ", ".join(words))] if words else []

    def _chunk(self, side: int, cell: CellRecord | None) -> tuple[int, int] | None:
        """The chunk of the pass that saw a cell."""
        if cell is None:
            return None
        steps = self._steps[side]
        here = np.flatnonzero(steps.pass_index == cell.pass_index)
        return (int(steps.start[here[0]]), int(steps.stop[here[0]])) if len(here) else None

    def _passes(
        self, site: Site, position: int, sides: tuple[CellRecord | None, CellRecord | None]
    ) -> Lines:
        seen, wrote = [], []
        for side, cell in enumerate(sides):
            line = self._lines[side]
            seen.append(details.chunk_words(line, cell.pass_index) if cell else "not observed")
            wrote.append(details.writer_words(line, self._steps[side], site, position))
        lines: Lines = [Heading("passes"), Sides("seen in", *seen)]
        if wrote != seen:
            lines.append(Sides("written by", *wrote))
        times = [str(cell.times) if cell else "0" for cell in sides]
        if times != ["1", "1"] and any(cell and cell.times > 1 for cell in sides):
            lines.append(Sides("times seen", *times))
        return lines

    def _moments(self, column: Column, position: int) -> Lines:
        """The digests of a cached value at every moment that either arm has at this position."""
        site = column.site
        state = site.kind.is_state
        twin = site if column.baseline_only else self._twins.get((site.name, site.role))
        lines: Lines = []
        for moment in Moment:
            base = cand = None
            if twin is not None:
                base = fetch(self._lines[0], self._stores[0], twin, (moment,), position)
            if not column.baseline_only:
                cand = fetch(self._lines[1], self._stores[1], site, (moment,), position)
            if base or cand:
                words = details.moment_words(moment, state=state)
                lines.append(Sides(words, *(_brief(side) for side in (base, cand))))
        what = "state" if state else "row"
        return [Heading(f"this {what} at each moment"), *lines] if lines else []


def _brief(cell: CellRecord | None) -> str:
    if cell is None:
        return "not observed"
    zero = ", all zero" if cell.all_zero else ""
    more = f" +{len(cell.digests) - 1}" if len(cell.digests) > 1 else ""
    return f"{int(cell.digests[0]):016x}{more}{zero}"


def _relative(value: float, against: str) -> str:
    if math.isnan(value):
        return "of unknown size (no sketches)"
    if value < FLOOR:
        return f"under {FLOOR:.0e} of {against}"
    if math.isinf(value):
        return "beyond measure: zero or not finite on one side, or another shape"
    return f"{value:.1e} of {against}"


def _kernels(
    sides: tuple[CellRecord | None, CellRecord | None],
    chunks: tuple[tuple[int, int] | None, tuple[int, int] | None],
) -> Lines:
    """Both kernels, fact by fact."""
    if not any(sides):
        return []
    facts: list[dict[str, str]] = []
    for cell, chunk in zip(sides, chunks, strict=True):
        found: dict[str, str] = {}
        if cell is not None and cell.kernel is not None:
            found["kernel"] = cell.kernel.name
            found |= {name: details.fact_words(v) for name, v in cell.kernel.facts.items()}
            if chunk is not None:
                found |= {"T_q": str(chunk[1] - chunk[0]), "T_kv": str(chunk[1])}
            found["source"] = cell.kernel.source
        if cell is not None:
            found |= {"dtype": cell.dtype, "row shape": "×".join(map(str, cell.shape)) or "1"}
            found |= {"NaN": str(cell.nan_count)} if cell.nan_count else {}
        facts.append(found)
    names = dict.fromkeys([*facts[1], *facts[0]])
    lines: Lines = [Heading("kernels and launch facts")]
    for name in names:
        sides_words = [found.get(name) or "not recorded" for found in facts]
        lines.append(Sides(name, *sides_words))
    return lines


_LEVELS = {
    (Level.JUMP, SizeClass.JUMP): "jump: far above what comes in and above rounding",
    (Level.BITS, SizeClass.JUMP): "bits, and far above rounding",
    (Level.BITS, SizeClass.ROUNDING): "bits, rounding-sized",
}
_KINDS = {
    OriginKind.KERNEL: "kernel: it computed this from inputs that agree",
    OriginKind.STATE: "state: it is not what the cache was left with",
    OriginKind.GLUE: "glue: the code between two modules",
    OriginKind.INPUT: "input: what the model was given",
}


def origin_lines(origin: Origin) -> Lines:
    """What the report says of an origin."""
    lines: Lines = [
        Heading(f"origin {origin.rank}" if origin.rank else "origin"),
        Fact("cause", f"{origin.cause.value}, {origin.confidence.value}", Tone.ORIGIN),
        Fact("level", _LEVELS.get((origin.level, origin.severity.size), origin.level.value)),
        Fact("kind", _KINDS[origin.origin_kind]),
    ]
    if origin.also:
        lines.append(Fact("also", ", ".join(cause.value for cause in origin.also)))
    lines += [
        Fact("evidence", evidence.fact if evidence.holds else f"NOT: {evidence.fact}")
        for evidence in origin.evidence
    ]
    lines += [Fact("ruled out", f"{r.cause.value}: {r.because}") for r in origin.ruled_out]
    logits = "logits differ" if origin.reach.logits else "no logit differs"
    lines.append(Fact("reach", f"{origin.reach.cells:,} cells at or after it differ; {logits}"))
    lines.append(Fact("next", origin.next_step))
    return lines


def unplaced_detail(origin: Origin) -> Detail:
    """An origin that no cell shows, such as other tokens."""
    lines: Lines = [Fact("position", str(origin.position)), *origin_lines(origin)]
    return Detail(place(origin), PAIR_SIGNS[Mark.ORIGIN], tuple(lines))
