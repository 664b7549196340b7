"""``layerdiff hunt``: runs a case under all arms and says where they part, and what proves it."""

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from layerdiff.commands.diff import RENDERERS, check_writable, emit, write
from layerdiff.errors import LayerdiffError, UsageError
from layerdiff.model import Report
from layerdiff.render.json import render_error
from layerdiff_hooks.hunt.arm import find_arm
from layerdiff_hooks.hunt.case import Case
from layerdiff_hooks.hunt.loading import load_case, registered_cases
from layerdiff_hooks.hunt.progress import Progress


class HuntCommand:
    """Runs a case and prints the report."""

    name = "hunt"
    help = "run a case cold, warm and under controls, and say where they part and why"
    description = """\
Runs one engine several times on the same prompts, records each run, compares the baseline
(cold) with the candidate (warm), runs the controls that decide why they part, and prints one
report. CASE is a name from --list, a file (case.py, case.py:Class, case.toml) or
package.module:Class. How to write one, about 20 lines: docs/cases.md.

arms
  cold           a fresh engine, nothing to reuse
  warm           earlier requests fill the cache, the compared ones take it over
  cold-repeat    cold once more; warm-repeat: warm once more; -2, -3: again
  cold-split     cold in the chunks of the warm run: is it reuse, or only the shape?
  off            nothing is cached at all
  no-state       as warm, but every hit is declined and the prefix computed again
  solo           as warm, without batch mates
  poison-layer-N, poison-layer-N-conv, poison-drafter, poison-slack
                 as warm, with what was restored (or the bytes that no token owns) overwritten
  reference      computed by means that are trusted more
no-state, solo and poison are run where the outcome asks for them and the case offers them,
reference where you ask for it.

exit status
  0  identical: every cell of either run was compared or accounted for, with a hit in warm
  1  diverged: a difference was observed
  2  nothing could be compared: wrong words, or the engine failed in cold or warm
  3  inconclusive: no difference was observed, but not everything was seen"""
    epilog = """\
examples
  layerdiff hunt --list                        what is installed
  layerdiff hunt case.py                       the case in a file of yours
  layerdiff hunt case.py --keep dumps          keep the dumps; finished ones are reused
  layerdiff hunt case.py --keep dumps --fresh  record all of them again
  layerdiff hunt case.toml --format json -o report.json
  layerdiff hunt case.py --arms cold,warm      these two and no controls"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.add_argument("case", metavar="CASE", nargs="?", help="name, file or module:Class")
        parser.add_argument("--list", action="store_true", help="list the installed cases")
        parser.add_argument("--format", choices=sorted(RENDERERS), default="text")
        parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it there")
        parser.add_argument(
            "--keep", metavar="DIR", type=Path, help="keep the dumps here, and reuse finished ones"
        )
        parser.add_argument(
            "--fresh", action="store_true", help="record again what is in DIR, replacing it"
        )
        parser.add_argument(
            "--arms",
            metavar="A,B",
            help="run these and no others; baseline and candidate are always run",
        )
        parser.add_argument(
            "--reference", action="store_true", help="compare with the case's reference too"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Hunts, prints; returns the report's exit status."""
        if arguments.list:
            return _list()
        check_writable(arguments.output)
        try:
            report = _hunt(arguments)
        except LayerdiffError as error:
            if arguments.format == "json":
                write(render_error(str(error)), arguments.output)
            raise
        return emit(report, arguments.format, arguments.output)


def _list() -> int:
    cases, problems = registered_cases()
    width = max(map(len, cases), default=0)
    for name in cases:
        title = getattr(cases[name], "title", None)
        title = load_case(name).title if title is None else title
        print(f"{name:<{width}}  {title}".rstrip())
    for problem in problems or ([] if cases else ["no cases are installed"]):
        print(f"layerdiff: {problem}", file=sys.stderr)
    return 0


def _hunt(arguments: argparse.Namespace) -> Report:
    if arguments.case is None:
        raise UsageError("hunt needs a case: layerdiff hunt CASE (--list names the installed)")
    case = load_case(arguments.case)
    names = _names(case, arguments)
    # Here and not above: --help, --list and wrong words need no torch.
    from layerdiff_hooks.hunt.hunting import Hunt
    from layerdiff_hooks.hunt.running import Runner

    progress = Progress(sys.stderr)
    with _folder(arguments.keep) as place:
        with Runner(case, place.path, fresh=arguments.fresh, progress=progress) as runner:
            hunt = Hunt(runner, names, further=arguments.arms is None)
            try:
                report = hunt.report()
            finally:
                place.keep |= bool(hunt.failed)
        progress.total_time(f"dumps kept in {place.path}" if place.keep else "")
    return report


def _names(case: Case, arguments: argparse.Namespace) -> list[str]:
    """The runs to make, as asked for."""
    names = list(case.arms)
    if arguments.arms is not None:
        names = [name.strip() for name in arguments.arms.split(",") if name.strip()]
        for name in names:
            find_arm(name, baseline=case.baseline, candidate=case.candidate)
    if arguments.reference:
        if "reference" not in case.can:
            raise UsageError(f"case {case.name} offers no reference; leave --reference out")
        names.append("reference")
    return names


class _Place:
    """A folder for dumps."""

    def __init__(self, path: Path, *, keep: bool) -> None:
        self.path = path
        self.keep = keep
        """Whether it outlives the hunt."""


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[_Place]:
    """The user's folder, or one that goes unless an arm failed: then its dump is worth a look."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--keep {keep}: cannot make the folder ({error.strerror})") from None
        yield _Place(keep, keep=True)
        return
    place = _Place(Path(tempfile.mkdtemp(prefix="layerdiff-hunt-")), keep=False)
    try:
        yield place
    finally:
        if not place.keep:
            shutil.rmtree(place.path, ignore_errors=True)
