"""Which runs a control compares, and what follows from its verdict."""

from dataclasses import dataclass

from layerdiff.comparison import Comparison
from layerdiff.model import Control
from layerdiff.vocabulary import Moment, Verdict


@dataclass(frozen=True, slots=True)
class ControlRun:
    """Another comparison that bears on the main one."""

    name: str
    """Such as ``cold-repeat``, ``cold-split`` or ``poison-layer-2``."""
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class _Plan:
    baseline: str
    """An arm, where ``cold`` and ``warm`` stand for the baseline and the candidate."""
    candidate: str
    """The same; empty for the control's own run."""
    equal: str
    different: str


_PLANS = {
    "cold": _Plan("cold", "", "a cold run agrees with it", "a cold run differs from it too"),
    "warm": _Plan("cold", "", "a warm run agrees with it", "a warm run differs from it too"),
    "cold-repeat": _Plan(
        "cold",
        "",
        "cold runs repeat: what differs elsewhere is no noise",
        "cold runs do not repeat: where they differ, no difference can be trusted",
    ),
    "warm-repeat": _Plan(
        "warm", "", "warm runs repeat as well", "warm runs do not repeat with the same inputs"
    ),
    "cold-split": _Plan(
        "",
        "warm",
        "save, copy and restore added nothing; code that ignores what it restored is not cleared",
        "the same chunks without reuse give other bits",
    ),
    "off": _Plan(
        "",
        "cold",
        "the baseline is what runs without a cache give",
        "a run without a cache gives other bits",
    ),
    "no-state": _Plan(
        "cold",
        "",
        "with every hit declined the arms agree: what differs came with the restored prefix",
        "with every hit declined the arms differ too: not all of it came with what was restored",
    ),
    "solo": _Plan(
        "cold",
        "",
        "without batch mates the arms agree",
        "without batch mates the arms differ too",
    ),
    "poison": _Plan(
        "warm",
        "",
        "overwriting what was restored changes nothing: it is not read",
        "overwriting what was restored changes what follows: it is read",
    ),
    "poison-slack": _Plan(
        "cold",
        "",
        "with the bytes that no token owns zeroed the arms agree",
        "with the bytes that no token owns zeroed the arms differ too",
    ),
    "reference": _Plan(
        "",
        "cold",
        "the baseline agrees with the reference",
        "the baseline differs from the reference",
    ),
}


def _plan(name: str) -> _Plan:
    fitting = [key for key in _PLANS if name == key or name.startswith(f"{key}-")]
    if not fitting:
        raise ValueError(f"no control is called {name!r}")
    return _PLANS[max(fitting, key=len)]


def arms_of(name: str, baseline: str = "cold", candidate: str = "warm") -> tuple[str, str]:
    """The arms that a control compares, as (baseline, candidate).

    Args:
        name: Of the control, which is also that of its own run.
        baseline: The main comparison's baseline arm.
        candidate: Its candidate arm.

    Raises:
        ValueError: There is no such control.
    """
    plan = _plan(name)
    roles = {"cold": baseline, "warm": candidate, "": name}
    return roles[plan.baseline], roles[plan.candidate]


def describe(run: ControlRun) -> Control:
    """The control as the report shows it."""
    plan, report = _plan(run.name), run.comparison.report
    if report.verdict is Verdict.INCONCLUSIVE and not report.coverage.differing:
        reasons = [cause.because for cause in report.arm_causes] or list(report.coverage.gaps)
        says = reasons[0] if reasons else "not everything was seen in both"
        if report.coverage.compared and not report.coverage.gaps and not report.arm_causes:
            says = plan.equal
    else:
        says = plan.equal if report.verdict is Verdict.IDENTICAL else plan.different
    if run.name.startswith("poison-") and run.name != "poison-slack":
        says = _poison_words(run, says)
    baseline = report.baseline.arm if plan.baseline else run.name
    candidate = report.candidate.arm if plan.candidate else run.name
    for side in ("cold", "warm"):
        # A repeat is one of the case's own arm, whatever that is called.
        if candidate.startswith(f"{side}-repeat"):
            candidate = candidate.replace(side, baseline, 1)
    return Control(run.name, baseline, candidate, report.verdict, says)


def _poison_words(run: ControlRun, says: str) -> str:
    """What a poison shows, of layerdiff too: it must be found where it was put."""
    if not took(run.comparison):
        return "nothing that was read differs: the poison reached nothing, and shows nothing"
    if not _reached(run.comparison):
        return "what was overwritten was read, and nothing that was computed is another value"
    origins = run.comparison.report.origins
    if not origins or origins[0].moment not in ("in", "restored") or not origins[0].reach.logits:
        return says
    first = origins[0]
    return (
        f"what was overwritten in {first.site} was found there, at {first.position}, and changes "
        "what follows: it is read, and a change does not go unseen"
    )


def _reached(poison: Comparison) -> bool:
    """Whether anything that was computed differs."""
    return any(
        column.moment is Moment.COMPUTED and not column.diff.clean
        for pair in poison.pairs
        for column in pair.trace.columns.values()
    )


def took(poison: Comparison) -> bool:
    """Whether overwriting what was restored shows in anything that a pass read."""
    return any(
        column.moment in (Moment.IN, Moment.RESTORED) and not column.diff.clean
        for pair in poison.pairs
        for column in pair.trace.columns.values()
    )
