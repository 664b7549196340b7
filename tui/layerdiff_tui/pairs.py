"""A compared pair of dumps as the screen shows it."""

from functools import lru_cache
from threading import Lock

import numpy as np

from layerdiff.commands.diff import EXIT_BY_VERDICT
from layerdiff.comparison import Comparison, PairTrace
from layerdiff.describe import describe
from layerdiff.facts import OriginFacts
from layerdiff.format.records import Site
from layerdiff.lineage import Line, line_steps
from layerdiff.model import Origin, Report
from layerdiff.render.json import render_json
from layerdiff.render.text import answer_line, render_text
from layerdiff.trace import Trace
from layerdiff.vocabulary import Mark, Moment
from layerdiff_tui.details import Detail
from layerdiff_tui.marks import PAIR_SIGNS, Sign, cover
from layerdiff_tui.pair_details import PairDetails
from layerdiff_tui.rows import Column, layer_rows, site_key
from layerdiff_tui.session import Spot, Target, View


class PairSession:
    """Two dumps, compared."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self._report = comparison.report
        self.answer = answer_line(comparison.report)
        self.summary = _summary(comparison.report)
        self.titles = tuple(_title(pair) for pair in comparison.pairs)
        self.targets = tuple(self._target(origin) for origin in comparison.report.origins)
        # One digest store serves all calls and is not made for several threads at once.
        self._lock = Lock()
        self._view = lru_cache(maxsize=8)(self._make_view)
        self._details = lru_cache(maxsize=8)(self._make_details)

    @property
    def signs(self) -> tuple[Sign, ...]:
        """By `Mark`."""
        return PAIR_SIGNS

    @property
    def exit_status(self) -> int:
        """Like that of ``layerdiff diff``."""
        return EXIT_BY_VERDICT[self._report.verdict]

    @property
    def formats(self) -> dict[str, str]:
        """Text and JSON."""
        return {".txt": render_text(self._report), ".json": render_json(self._report)}

    def view(self, index: int) -> View:
        """The grid of one pair."""
        return self._view(index)

    def detail(self, index: int, spot: Spot) -> Detail:
        """All that is known of a cell of one pair."""
        with self._lock:
            chosen = spot.row.column_at(spot.position)
            origin = None
            if chosen.marks[spot.position] == Mark.ORIGIN:
                origin = self._origin_at(index, chosen, spot.position)
            describer = self._details(index)
            return describer.describe(spot.row, spot.position, (spot.start, spot.stop), origin)

    def _make_view(self, index: int) -> View:
        pair = self.comparison.pairs[index]
        trace = pair.trace
        steps = trace.steps if trace.steps is not None else line_steps(trace.candidate)
        size = pair.pair.comparable + 1
        return View(
            title=self.titles[index],
            facts=_pair_facts(pair),
            rows=layer_rows(_columns(trace, size), lone=Mark.UNPAIRED),
            size=size,
            chunks=np.unique(steps.start),
            takeovers=tuple(part.start for part in trace.candidate.parts if part.start),
        )

    def _make_details(self, index: int) -> PairDetails:
        pair = self.comparison.pairs[index]
        trace = pair.trace
        candidate = trace.steps if trace.steps is not None else line_steps(trace.candidate)
        steps = line_steps(trace.baseline), candidate
        return PairDetails(self.comparison, pair, steps)

    def _target(self, origin: Origin) -> Target:
        moment = Moment[origin.moment.upper()] if origin.moment else Moment.COMPUTED
        spare = None
        for number, pair in enumerate(self.comparison.pairs):
            site = _site_named(pair.trace.candidate, origin)
            column = pair.trace.columns.get((site.index, moment)) if site else None
            if site is None or column is None or origin.position >= len(column.mark):
                continue
            if column.mark[origin.position] == Mark.ORIGIN:
                found = Target(origin, number, site_key(site, moment), origin.position)
                read = moment in (Moment.IN, Moment.RESTORED)
                if origin.position - site.kind.is_state >= pair.own_from or read:
                    return found
                spare = spare or found
        return spare or Target(origin, self._pair_of(origin), None, origin.position)

    def _pair_of(self, origin: Origin) -> int:
        names = [pair.pair.candidate.name for pair in self.comparison.pairs]
        return names.index(origin.request_id) if origin.request_id in names else 0

    def _origin_at(self, index: int, column: Column, position: int) -> Origin | None:
        """What the report says of the origin that a cell belongs to."""
        trace = self.comparison.pairs[index].trace
        key = site_key(column.site, column.moment)
        for find in trace.finds:
            same = find.site.index == column.site.index and find.moment is column.moment
            if same and position in find.positions:
                for target in self.targets:
                    if target.key == key and target.position == find.position:
                        return target.origin
                stores = self.comparison.baseline.store, self.comparison.candidate.store
                return describe(OriginFacts(trace, find, stores))
        return None


def _site_named(line: Line, origin: Origin) -> Site | None:
    for site in line.dump.sites:
        if site.name == origin.site and site.role.word == origin.role:
            return site
    return None


def _summary(report: Report) -> tuple[str, ...]:
    """Arms and numbers."""
    coverage = report.coverage
    arms = f"{report.baseline.arm} against {report.candidate.arm}"
    return arms, f"{coverage.differing:,} of {coverage.compared:,} cells differ"


def _title(pair: PairTrace) -> str:
    """The names of the requests, once if they are the same."""
    base, cand = pair.pair.baseline.name, pair.pair.candidate.name
    return base if base == cand else f"{base} : {cand}"


def _pair_facts(pair: PairTrace) -> str:
    words = [f"hit {pair.trace.candidate.hit}"]
    longest = max(len(pair.pair.baseline.chain), len(pair.pair.candidate.chain))
    if pair.pair.comparable < longest:
        words.append(f"{pair.pair.comparable} of {longest} positions are comparable")
    if pair.trace.candidate.unobserved:
        words.append("writer of the hit unobserved")
    return " · ".join(words)


def _columns(trace: Trace, size: int) -> list[Column]:
    """All columns in order of dependence, and those that the baseline alone has."""
    found = []
    for site in trace.order:
        of_site = [
            Column(site, moment, trace.columns[site.index, moment].mark)
            for moment in Moment
            if (site.index, moment) in trace.columns
        ]
        seen = [column for column in of_site if column.marks.any()]
        found += seen or of_site[:1]
    return found + _baseline_only(trace, size)


def _baseline_only(trace: Trace, size: int) -> list[Column]:
    known = {(site.name, site.role) for site in trace.order}
    found = []
    for site in trace.baseline.dump.sites:
        if (site.name, site.role) not in known:
            for moment in Moment:
                runs = trace.baseline.looks(site, moment).clip(0, size)
                if len(runs):
                    marks = cover(runs.start, runs.stop, size, Mark.UNPAIRED)
                    found.append(Column(site, moment, marks, baseline_only=True))
    return found
