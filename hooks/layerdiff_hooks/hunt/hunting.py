"""A whole hunt: runs the arms, compares, runs the controls that are asked for, settles."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from layerdiff.comparison import Comparison, compare_dumps
from layerdiff.controls import ControlRun, arms_of, settle, wanted
from layerdiff.errors import LayerdiffError, PairingError, UsageError
from layerdiff.format.reader import Dump
from layerdiff.model import Report
from layerdiff_hooks.hunt.arm import Chunks, find_arm
from layerdiff_hooks.hunt.case import Case
from layerdiff_hooks.hunt.checks import broken_promise, unasked_hit
from layerdiff_hooks.hunt.layout import read_layout
from layerdiff_hooks.hunt.noise import bound_rates, is_noisy
from layerdiff_hooks.hunt.partners import find_partners
from layerdiff_hooks.hunt.progress import Progress
from layerdiff_hooks.hunt.running import Run, Runner

_ROUNDS: Final = 2
"""How often further controls are asked for."""
_EXTRA: Final = 8
"""How many of them are run at most."""
_WARMED: Final = (
    "the order of measuring itself warmed the cache; build a fresh engine in run() and look "
    "nothing up unless arm.reuse"
)
_NO_LAYOUT: Final = "the warm run does not say in which chunks its prompts were computed"


def hunt(case: Case, folder: Path, *, progress: Progress | None = None) -> Report:
    """Runs all that a case and its outcome ask for, with the dumps in *folder*.

    Raises:
        ArmFailed: Baseline or candidate raised.
        LayerdiffError: They cannot be compared, or the folder holds what another case made.
    """
    with Runner(case, folder, progress=progress) as runner:
        return Hunt(runner, case.arms).report()


@dataclass(slots=True)
class Hunt:
    """The state of one hunt.

    Args:
        runner: Runs the arms of its case.
        names: Runs to make besides baseline and candidate, in order.
        further: Whether controls that the outcome asks for are run as well.
    """

    runner: Runner
    names: Sequence[str]
    further: bool = True
    runs: dict[str, Run] = field(default_factory=dict)
    """By name, in order of running."""
    controls: dict[str, ControlRun] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """What the report has to tell about the runs."""

    def report(self) -> Report:
        """Runs everything and says what came of it.

        Raises:
            ArmFailed: Baseline or candidate raised.
            LayerdiffError: They cannot be compared.
        """
        case = self.runner.case
        pair = (case.baseline, case.candidate)
        names = _ordered(self.names, pair)
        self.runner.progress.total = len(names)
        for name in names:
            self._run(name)
        main = self._compare(*pair)
        self._judge(names)
        if self.further:
            self._go_on(main)
        report = settle(main, list(self.controls.values()))
        report = bound_rates(report)
        return replace(report, warnings=(*report.warnings, *self.warnings))

    @property
    def failed(self) -> list[Run]:
        """Runs that raised."""
        return [run for run in self.runs.values() if run.error is not None]

    def _go_on(self, main: Comparison) -> None:
        """Repeats once more where repeats differ, and whatever else would decide something."""
        if is_noisy(list(self.controls.values())):
            self._extend(["cold-repeat-2", "warm-repeat-2"])
        left = _EXTRA
        for _ in range(_ROUNDS):
            asked = [name for name in wanted(main, self.runs) if self._can_ask(name)][:left]
            if not asked:
                return
            left -= len(asked)
            self._extend(asked)

    def _can_ask(self, name: str) -> bool:
        """Whether a control is new, and an arm: a layer without a number cannot be poisoned."""
        try:
            find_arm(name)
        except UsageError:
            return False
        return name not in self.runs

    def _extend(self, names: Sequence[str]) -> None:
        new = [name for name in names if name not in self.runs]
        self.runner.progress.total += len(new)
        for name in new:
            self._run(name)
        self._judge(new)

    def _run(self, name: str) -> None:
        """Runs one arm; without baseline or candidate nothing can be said at all."""
        case = self.runner.case
        layout = None
        if name == "cold-split":
            layout = self._layout()
            if layout is None:
                return
        run = self.runner.run(name, layout=layout)
        self.runs[name] = run
        if run.dump is None and name in (case.baseline, case.candidate):
            raise run.error or LayerdiffError(f"arm {name} cannot be run: {run.why}")
        if run.dump is None:
            self.warnings.append(f"the control {name} is missing: {run.why}")

    def _layout(self) -> dict[str, Chunks] | None:
        with Dump.open(self._path(self.runner.case.candidate)) as dump:
            layout = read_layout(dump)
            known = len(layout) == len({request.name for request in dump.requests})
        if not known:
            self.warnings.append(f"the control cold-split is missing: {_NO_LAYOUT}")
            self.runner.progress.total -= 1
            self.runner.progress.line(f"skipping cold-split: {_NO_LAYOUT}")
        return layout if known else None

    def _judge(self, names: Sequence[str]) -> None:
        """Makes controls of the runs that kept to their arm."""
        case = self.runner.case
        for name in names:
            run = self.runs.get(name)
            if run is None or run.dump is None:
                continue
            with Dump.open(run.dump) as dump:
                served = unasked_hit(run.arm, dump)
                broken = f"{served}: {_WARMED}" if served else broken_promise(run.arm, dump)
            if name in (case.baseline, case.candidate):
                if broken:
                    self.warnings.append(f"{name}: {broken}")
            elif broken:
                self.warnings.append(f"the control {name} does not count: {broken}")
            else:
                self._add(name)

    def _add(self, name: str) -> None:
        case = self.runner.case
        arms = arms_of(name, case.baseline, case.candidate)
        main = (case.baseline, case.candidate)
        if arms in (main, main[::-1]) or arms[0] == arms[1] or not all(map(self._has, arms)):
            return
        try:
            self.controls[name] = ControlRun(name, self._compare(*arms))
        except PairingError as error:
            self.warnings.append(f"the control {name} cannot be compared: {error}")

    def _has(self, name: str) -> bool:
        return name in self.runs and self.runs[name].dump is not None

    def _path(self, name: str) -> Path:
        path = self.runs[name].dump
        assert path is not None
        return path

    def _compare(self, baseline: str, candidate: str) -> Comparison:
        """Compares two runs: the requests that both have."""
        dumps = Dump.open(self._path(baseline)), Dump.open(self._path(candidate))
        mates = all(self.runs[name].arm.mates for name in (baseline, candidate))
        helpers = self.runner.case.helpers
        pairing = find_partners(*dumps, mates=mates, helpers=helpers)
        return compare_dumps(*dumps, pairing=pairing)


def _ordered(names: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """All runs once each, the split one behind the candidate whose chunks it follows."""
    found = list(dict.fromkeys([*names, *pair]))
    if "cold-split" in found and "cold-split" not in pair:
        found.remove("cold-split")
        at = names.index("cold-split")
        found.insert(max(at, found.index(pair[1]) + 1), "cold-split")
    return found
