"""Follows differences through one pair of lines, site by site and pass by pass.

Each site is judged by its direct inputs alone, so a difference that healed on the way hides
nothing, and several independent causes come out as several origins.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from layerdiff import flow as flows
from layerdiff.compare import ColumnDiff, State, compare_column, final, same_runs
from layerdiff.custody import Breaches, Changed, follow_custody
from layerdiff.digest_store import DigestStore
from layerdiff.flow import Flow
from layerdiff.format.reader import Site
from layerdiff.lineage import Line, Steps, drafted, line_steps
from layerdiff.looks import of_the_last_text, unlike
from layerdiff.precision import site_eps
from layerdiff.recurrent import judge_lone_state, judge_mixer
from layerdiff.segments import Cells, Segments, expand, join
from layerdiff.site_graph import in_order, margins
from layerdiff.vocabulary import Mark, Moment, Reach


@dataclass(frozen=True, slots=True)
class Column:
    """One site at one moment, compared and judged, over all positions."""

    site: Site
    moment: Moment
    diff: ColumnDiff
    mark: NDArray[np.uint8]
    """A Mark for each position."""


@dataclass(frozen=True, slots=True)
class Find:
    """Cells of one column and pass that are origins, the first one standing for all."""

    site: Site
    moment: Moment
    positions: NDArray[np.int64]
    jump: bool
    breach: bool
    """The value is not what the same arm left there."""
    bits: bool
    """Nothing that comes in differs."""
    relative: float
    incoming: float

    @property
    def position(self) -> int:
        """The first of the positions."""
        return int(self.positions[0])


@dataclass(slots=True)
class Trace:
    """A pair of lines, judged."""

    baseline: Line
    candidate: Line
    columns: dict[tuple[int, Moment], Column] = field(default_factory=dict)
    """By the candidate's site index and the moment."""
    finds: list[Find] = field(default_factory=list)
    flows: dict[int, Flow] = field(default_factory=dict)
    breaches: dict[int, Breaches] = field(default_factory=dict)
    misread: dict[tuple[int, Moment], Cells] = field(default_factory=dict)
    """Looks that found what neither was there before nor is in the baseline."""
    order: tuple[Site, ...] = ()
    steps: Steps | None = None


class Tracer:
    """Judges one pair of lines."""

    def __init__(
        self,
        baseline: tuple[Line, DigestStore],
        candidate: tuple[Line, DigestStore],
        comparable: int,
    ) -> None:
        self.base, self.base_store = baseline
        self.cand, self.cand_store = candidate
        self.size = comparable + 1
        self.steps = line_steps(self.cand)
        self.base_sites = {(site.name, site.role): site for site in self.base.dump.sites}
        self.trace = Trace(self.base, self.cand, steps=self.steps)
        self.reads: dict[int, ColumnDiff] = {}
        self.margins = margins(self.cand.dump)
        self.drafted = np.union1d(drafted(self.base), drafted(self.cand))
        self.maker = np.full(self.size + 1, -1, np.int64)
        """The pass that made each position; -1 where none did."""
        for start, stop, index in zip(
            self.steps.start, self.steps.stop, self.steps.pass_index, strict=True
        ):
            self.maker[int(start) : int(stop)] = index

    def run(self) -> Trace:
        """Judges every site in order."""
        self.trace.order = in_order(self.cand.dump)
        for site in self.trace.order:
            if site.kind.is_state:
                self._cached(site)
            elif site.kind.is_kv:
                self._cached(site)
                self._rows(site, self.incoming(site))
                self._looks(site)
            elif site.reach is Reach.STATE:
                judge_mixer(self, site)
            else:
                self._rows(site, self.incoming(site))
        for site in self.trace.order:
            if site.kind.is_state and (site.index, Moment.IN) not in self.trace.columns:
                judge_lone_state(self, site)
        return self.trace

    # -- what comes in -------------------------------------------------------------------------

    def incoming(self, site: Site, *, running: bool = True) -> Flow:
        """What the direct inputs of a site hand on, at each position.

        Args:
            running: Whether a site that looks back gathers all earlier positions of its inputs.
        """
        inputs = [self.cand.dump.sites[index] for index in site.inputs]
        cached = [other for other in inputs if other.kind.is_kv]
        found = [flows.nothing(self.size)]
        for other in inputs:
            handed = self.trace.flows.get(other.index, found[0])
            if other.kind.is_kv:
                handed = self._as_read(other, handed)
            elif running and site.reach is not Reach.ROW and not cached:
                handed = handed.running()
            found.append(handed)
        return flows.merge(*found)

    def _as_read(self, site: Site, computed: Flow) -> Flow:
        """What the rows of a cache bring to each position that attends to them."""
        read = self.reads.get(site.index)
        if read is None or (read.clean and computed.clean):
            return computed.running()
        result = computed.running()
        base = computed
        for start, diff in self._reads_by_pass(site):
            base = flows.overlay(base, diff)
            ran = base.running()
            result.bad[start:] = ran.bad[start:]
            result.size[start:] = ran.size[start:]
        return result

    def _reads_by_pass(self, site: Site) -> list[tuple[int, ColumnDiff]]:
        """Reads of a cache that were hashed, with the first position that each read serves."""
        found = []
        runs = self.cand.looks(site, Moment.IN)
        passes = self.cand.dump.observations["pass_index"][runs.observation].astype(np.int64)
        for index in np.unique(passes):
            step = np.flatnonzero(self.steps.pass_index == index)
            if len(step):
                chosen = runs.take(np.flatnonzero(passes == index))
                start = int(self.steps.start[step].min())
                found.append((start, self.with_breaches(site, Moment.IN, chosen)))
        return sorted(found, key=lambda item: item[0])

    # -- columns -------------------------------------------------------------------------------

    def _rows(self, site: Site, incoming: Flow) -> None:
        """A column of rows as computed."""
        ours = self.cand.rows(site.index, Moment.COMPUTED)
        diff = self.compare(site, ours, self.baseline_rows(site))
        if site.index in self.margins:
            # Rounding of the scores is any part of a margin: only their own difference has a size.
            small = np.where(incoming.bad, np.fmin(diff.relative, incoming.size), diff.relative)
            diff = replace(diff, relative=small.astype(np.float32))
        self.judge(site, Moment.COMPUTED, diff, incoming)
        self.trace.flows[site.index] = flows.onward(diff, incoming)

    def _looks(self, site: Site) -> None:
        """What a cache held when it was read, and at the end."""
        computed = self.trace.flows[site.index]
        for moment in (Moment.IN, Moment.OUT):
            runs = self.cand.looks(site, moment)
            if not len(runs):
                continue
            diff = self.with_breaches(site, moment, runs)
            incoming = computed
            if moment is Moment.IN:
                self.reads[site.index] = diff
            elif site.index in self.reads:
                incoming = flows.overlay(computed, self.reads[site.index])
            self.judge(site, moment, diff, incoming, self.changed(site, moment))

    def _cached(self, site: Site) -> None:
        self.trace.breaches[site.index] = follow_custody(
            self.cand, self.cand_store, site, self.steps
        )

    def changed(self, site: Site, moment: Moment) -> Changed:
        """What changed inside the candidate's own cache."""
        return self.trace.breaches[site.index].at(moment, self.size)

    def with_breaches(self, site: Site, moment: Moment, runs: Segments) -> ColumnDiff:
        """Compares looks with the baseline; where it has nothing, with what the arm left there.

        Not looking is no gap: only what a pass left can be missing.
        """
        theirs, last = self._baseline_looks(site, moment), None
        if site.kind.is_kv:
            twin = self.base_sites.get((site.name, site.role))
            seen = theirs if twin is None else self.base.looks(twin, moment)
            if len(seen) == len(runs) and same_runs(runs, seen):
                theirs = seen
            else:
                last = np.arange(self.size)
        diff = self.compare(site, runs, theirs, last)
        changed = self.changed(site, moment)
        alone = (diff.state == State.CANDIDATE_ONLY) & changed.mask
        diff.state[alone] = State.DIFFERS
        diff.relative[alone] = changed.size[alone]
        self._every_look(site, moment, runs, diff)
        if moment is not Moment.OUT or not site.kind.is_state:
            diff.state[diff.state == State.BASELINE_ONLY] = State.ABSENT
        return diff

    def _every_look(self, site: Site, moment: Moment, runs: Segments, diff: ColumnDiff) -> None:
        """Puts in looks that a later one of the same value hides."""
        looks = self.trace.breaches[site.index].looks(moment, runs.observation)
        looks = looks.take(looks.position < self.limit(site))
        if len(looks) and len(self.drafted):
            state = site.kind.is_state
            made = expand(self.cand.looks(site, Moment.OUT if state else Moment.COMPUTED))
            looks = of_the_last_text(looks, made, self.drafted, state=state)
        if not len(looks):
            return
        theirs = expand(self._baseline_looks(site, moment).clip(0, self.limit(site)))
        theirs = final(theirs, self._replaced(site))
        looks, far = unlike((self.base_store, theirs), (self.cand_store, looks))
        hidden = diff.state[looks.position] != State.DIFFERS
        at = looks.position[hidden]
        diff.state[at], diff.relative[at] = State.DIFFERS, far[hidden]
        self.trace.misread.setdefault((site.index, moment), looks)

    def compare(
        self,
        site: Site,
        ours: Segments,
        theirs: Segments,
        last: NDArray[np.int64] | None = None,
    ) -> ColumnDiff:
        """Compares runs where both arms have the same tokens; see `compare_column` for *last*."""
        return compare_column(
            (self.base_store, theirs.clip(0, self.limit(site))),
            (self.cand_store, ours.clip(0, self.limit(site))),
            self.size,
            self._replaced(site),
            last,
        )

    def _replaced(self, site: Site) -> NDArray[np.int64]:
        """Positions of a site that held other tokens before; a state lies behind its tokens."""
        return self.drafted + 1 if site.kind.is_state else self.drafted

    def limit(self, site: Site) -> int:
        """Positions of a site that hold the same tokens in both arms."""
        return self.size if site.kind.is_state else self.size - 1

    def baseline_rows(self, site: Site) -> Segments:
        """The baseline's side of a column of computed rows."""
        twin = self.base_sites.get((site.name, site.role))
        if twin is None:
            return self.base.index.segments.take(slice(0, 0))
        computed = self.base.rows(twin.index, Moment.COMPUTED)
        if not site.kind.is_kv or not self.base.unobserved:
            return computed
        found = self.base.looks(twin, Moment.IN).clip(0, self.base.unobserved)
        return join([computed, found])

    def _baseline_looks(self, site: Site, moment: Moment) -> Segments:
        """The baseline's side of a look: seen at the same moment, else as it was last left."""
        twin = self.base_sites.get((site.name, site.role))
        if twin is None:
            return self.base.index.segments.take(slice(0, 0))
        same = self.base.looks(twin, moment)
        if site.kind.is_state:
            for other in (Moment.OUT, Moment.IN):
                if other is not moment:
                    more = self.base.looks(twin, other)
                    more = more.take(np.flatnonzero(~np.isin(more.start, same.start)))
                    same = join([same, more])
            return same
        computed = self.baseline_rows(site)
        if not len(same):
            return computed
        low, high = int(same.start.min()), int(same.stop.max())
        return join([computed.clip(0, low), same, computed.clip(high, self.size)])

    # -- judging -------------------------------------------------------------------------------

    def judge(
        self,
        site: Site,
        moment: Moment,
        diff: ColumnDiff,
        incoming: Flow,
        changed: Changed | None = None,
    ) -> None:
        """Marks a column and keeps its origins."""
        mark = _PLAIN[diff.state]
        out = Flow(diff.differs, diff.relative)
        broken = np.zeros(self.size, bool)
        if changed is not None:
            broken = changed.mask & (diff.state != State.AGREES)
        if not out.clean or not incoming.clean or broken.any():
            mark[(diff.state == State.AGREES) & incoming.bad] = Mark.HEALED
            mark[out.bad] = Mark.INHERITED
            bits = (out.bad & ~incoming.bad) | broken
            jump = flows.jumps(out, incoming, self._eps(site))
            size = out.size
            if changed is not None:
                size = np.where(broken, changed.size, out.size)
                jump |= broken & (size > flows.JUMP_RATIO * self._eps(site) / 8)
            mark[bits | jump] = Mark.ORIGIN
            self._keep(site, moment, _Masks(bits, jump, broken), size, incoming)
        self.trace.columns[site.index, moment] = Column(site, moment, diff, mark)

    def _keep(
        self,
        site: Site,
        moment: Moment,
        masks: "_Masks",
        size: NDArray[np.float32],
        incoming: Flow,
    ) -> None:
        bits, jump, broken = masks.bits, masks.jump, masks.broken
        for group in (broken, jump & ~broken, bits & ~jump & ~broken):
            found = np.flatnonzero(group)
            for positions in self._by_pass(found, state=site.kind.is_state):
                first = int(positions[0])
                self.trace.finds.append(
                    Find(
                        site,
                        moment,
                        positions,
                        bool(jump[first]),
                        bool(broken[first]),
                        bool(bits[first]),
                        float(size[first]),
                        float(incoming.size[first]),
                    )
                )

    def _by_pass(self, positions: NDArray[np.int64], *, state: bool) -> list[NDArray[np.int64]]:
        """Splits positions by the pass that made them; what no pass made stays together."""
        if not len(positions):
            return []
        owner = self.maker[positions - state]
        cuts = np.flatnonzero(np.diff(owner)) + 1
        return list(np.split(positions, cuts))

    def _eps(self, site: Site) -> float:
        return site_eps(self.cand.dump, site)


@dataclass(frozen=True, slots=True)
class _Masks:
    """Which cells of a column are origins, and of what sort."""

    bits: NDArray[np.bool_]
    jump: NDArray[np.bool_]
    broken: NDArray[np.bool_]


_PLAIN = np.array(
    [Mark.ABSENT, Mark.UNPAIRED, Mark.CARRIED, Mark.UNPAIRED, Mark.AGREES, Mark.INHERITED],
    np.uint8,
)
