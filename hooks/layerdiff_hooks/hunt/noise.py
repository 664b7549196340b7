"""What equal repeats say about noise, and what they cannot."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from layerdiff.controls import ControlRun
from layerdiff.model import Report
from layerdiff.vocabulary import Verdict

ENOUGH: Final = 3
"""Runs under one condition, below which noise is not judged."""
_DOUBT: Final = 0.05


def is_noisy(controls: Sequence[ControlRun]) -> bool:
    """Whether a repeat differed from its first run."""
    return any(
        "-repeat" in run.name and run.comparison.report.verdict is Verdict.DIVERGED
        for run in controls
    )


def bound_rates(report: Report) -> Report:
    """Adds to the last repeat of each side how rare noise must be, if all are equal."""
    controls = list(report.controls)
    for side in ("cold-repeat", "warm-repeat"):
        places = [at for at, found in enumerate(controls) if found.name.startswith(side)]
        runs = len(places) + 1
        equal = all(controls[at].verdict is Verdict.IDENTICAL for at in places)
        if runs >= ENOUGH and equal:
            last = controls[places[-1]]
            controls[places[-1]] = replace(last, says=f"{last.says}; {rate_words(runs)}")
    return replace(report, controls=tuple(controls))


def rate_words(runs: int) -> str:
    """How often runs may differ though *runs* of them were equal."""
    bound = 1 - _DOUBT ** (1 / runs)
    return (
        f"{runs} equal runs leave room for a run that differs at a rate of up to "
        f"{bound:.0%} (with 95% confidence)"
    )
