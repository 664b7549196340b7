"""Hunts cases of the sample engine; in one run of the tests each arm is recorded once."""

import copy
import fcntl
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


_DONE: dict[tuple[str, bool, bool, bool], Done] = {}


def hunted(case: Case, tmp_path: Path, *, reference: bool = False) -> Report:
    """What ``layerdiff hunt`` reports on a case; *reference* as ``--reference``."""
    return finished(case, tmp_path, reference=reference).report


def hunted_anew(case: Case, folder: Path) -> Report:
    """As `hunted`, with all arms run here and now: for who watches the engine itself."""
    return _hunt(case, folder, reference=False, controls=True).report


def compared(case: Case, tmp_path: Path) -> Report:
    """The case's baseline against its candidate, without any control."""
    return finished(case, tmp_path, controls=False).report


def finished(
    case: Case, tmp_path: Path, *, reference: bool = False, controls: bool = True
) -> Done:
    """The hunt as well; an earlier one of the same case is as good."""
    key = (case.name, bool(getattr(case, "_faults", ())), reference, controls)
    if key not in _DONE:
        folder = _shared(tmp_path) / "-".join(map(str, key[:3]))
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _DONE[key] = _hunt(case, folder, reference=reference, controls=controls)
    return _DONE[key]


def _shared(tmp_path: Path) -> Path:
    """A folder of this run of the tests, the same for all of its processes."""
    workers = [folder for folder in tmp_path.parents if folder.name.startswith("popen-gw")]
    return (workers[0].parent if workers else tmp_path.parent) / "hunts"


def _hunt(case: Case, folder: Path, *, reference: bool, controls: bool) -> Done:
    stream = io.StringIO()
    names = [*(case.arms if controls else []), *(["reference"] if reference else [])]
    with Runner(case, folder, progress=Progress(stream)) as runner:
        hunt = Hunt(runner, names, further=controls)
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
