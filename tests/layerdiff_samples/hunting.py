"""Hunts cases of the sample engine, each one once in a run of the tests."""

import copy
import io
from dataclasses import dataclass
from pathlib import Path

from layerdiff.model import Origin, Report, RuledOut
from layerdiff.vocabulary import Cause
from layerdiff_hooks.hunt import Case
from layerdiff_hooks.hunt.hunting import Hunt
from layerdiff_hooks.hunt.progress import Progress
from layerdiff_hooks.hunt.running import Runner
from layerdiff_samples.cases.base import SampleCase


@dataclass(frozen=True, slots=True)
class Done:
    """A finished hunt."""

    report: Report
    hunt: Hunt
    """With the dumps of all arms."""
    said: list[str]
    """Lines of progress."""


_DONE: dict[tuple[str, bool, bool], Done] = {}


def hunted(case: Case, tmp_path: Path, *, reference: bool = False) -> Report:
    """What ``layerdiff hunt`` reports on a case; *reference* as ``--reference``."""
    return finished(case, tmp_path, reference=reference).report


def finished(case: Case, tmp_path: Path, *, reference: bool = False) -> Done:
    """The hunt as well; an earlier one of the same case is as good."""
    key = (case.name, bool(getattr(case, "_faults", ())), reference)
    if key not in _DONE:
        _DONE[key] = _hunt(case, tmp_path / "-".join(map(str, key)), reference=reference)
    return _DONE[key]


def _hunt(case: Case, folder: Path, *, reference: bool) -> Done:
    folder.mkdir(parents=True)
    stream = io.StringIO()
    names = [*case.arms, *(["reference"] if reference else [])]
    with Runner(case, folder, fresh=True, progress=Progress(stream)) as runner:
        hunt = Hunt(runner, names)
        report = hunt.report()
    return Done(report, hunt, stream.getvalue().splitlines())


def healthy(case: SampleCase) -> SampleCase:
    """The same case on an engine without its faults."""
    twin = copy.copy(case)
    twin._faults = ()
    return twin


def ruled_out(origin: Origin, cause: Cause) -> RuledOut:
    """Why a cause is not that of an origin."""
    return next(found for found in origin.ruled_out if found.cause is cause)


def first(report: Report) -> Origin:
    """The origin of rank 1."""
    return report.origins[0]
