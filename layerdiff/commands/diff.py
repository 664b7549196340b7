"""``layerdiff diff``: where two dumps stop agreeing."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from layerdiff.comparison import Comparison, compare_dumps
from layerdiff.controls import ControlRun, settle
from layerdiff.errors import (
    EXIT_DIVERGED,
    EXIT_IDENTICAL,
    EXIT_INCONCLUSIVE,
    LayerdiffError,
    UsageError,
)
from layerdiff.format.reader import open_dumps
from layerdiff.model import Report
from layerdiff.render.json import render_error, render_json
from layerdiff.render.text import render_text
from layerdiff.vocabulary import Verdict

RENDERERS = {"text": render_text, "json": render_json}

EXIT_BY_VERDICT = {
    Verdict.IDENTICAL: EXIT_IDENTICAL,
    Verdict.DIVERGED: EXIT_DIVERGED,
    Verdict.INCONCLUSIVE: EXIT_INCONCLUSIVE,
}


class DiffCommand:
    """Compares two dumps and reports the first tensor that differs."""

    name = "diff"
    help = "say where two dumps stop agreeing: layer, token, tensor"
    description = """\
Compares the dumps of two runs over the same tokens, position by position, and names the first
tensor that differs although everything it was computed from agrees.

exit status
  0  identical: every cell of either run was compared or accounted for
  1  diverged: a difference was observed
  2  nothing could be compared: bad input, no common request, another architecture
  3  inconclusive: no difference was observed, but not everything was seen"""
    epilog = """\
examples
  layerdiff diff cold.h5 warm.h5
  layerdiff diff cold.h5 warm.h5 --format json -o report.json
  layerdiff diff run.h5::first run.h5::second      two requests of one dump
  layerdiff diff cold.h5 warm.h5 --pair r1=r7      whatever their prompts
  layerdiff diff cold.h5 warm.h5 --reference slow.h5"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.add_argument("baseline", metavar="BASELINE.h5[::REQUEST]", help="the trusted run")
        parser.add_argument("candidate", metavar="CANDIDATE.h5[::REQUEST]", help="the other run")
        parser.add_argument(
            "--pair",
            metavar="A=B",
            action="append",
            default=[],
            help="compare request A of the baseline with B of the candidate; may be repeated",
        )
        parser.add_argument(
            "--reference",
            metavar="REF.h5",
            help="a run that is trusted more than both: tells when both arms are wrong",
        )
        parser.add_argument("--format", choices=sorted(RENDERERS), default="text")
        parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it there")

    def run(self, arguments: argparse.Namespace) -> int:
        """Prints the report and returns 0, 1 or 3."""
        check_writable(arguments.output)
        try:
            comparison = compare_files(arguments.baseline, arguments.candidate, arguments.pair)
            report = comparison.report
            if arguments.reference:
                reference = compare_files(arguments.reference, arguments.baseline)
                report = settle(comparison, [ControlRun("reference", reference)])
        except LayerdiffError as error:
            if arguments.format == "json":
                write(render_error(str(error)), arguments.output)
            raise
        return emit(report, arguments.format, arguments.output)


def emit(report: Report, format_name: str, output: Path | None) -> int:
    """Writes a report and returns its exit status."""
    write(RENDERERS[format_name](report), output)
    return EXIT_BY_VERDICT[report.verdict]


def check_writable(output: Path | None) -> None:
    """Complains about an output that cannot be written before any work is done.

    Raises:
        UsageError: Its folder is missing or closed, or it is a folder itself.
    """
    if output is None:
        return
    folder = output.parent
    if not folder.is_dir():
        raise UsageError(f"-o {output}: there is no folder {folder}")
    if output.is_dir() or not os.access(output if output.exists() else folder, os.W_OK):
        raise UsageError(f"-o {output}: cannot be written")


def write(text: str, output: Path | None) -> None:
    """To a file, or to stdout."""
    if output is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None


def compare_files(baseline: str, candidate: str, pairs: list[str] | None = None) -> Comparison:
    """Opens and compares two dumps, each named as ``PATH`` or ``PATH::REQUEST``.

    Folders of rank files are compared rank by rank; the answer is that of the worst rank.
    """
    forced = [split_pair(pair) for pair in pairs or []]
    (left, first), (right, second) = split_request(baseline), split_request(candidate)
    ours, theirs = open_dumps(right), open_dumps(left)
    ranks = [[dump.header.get("rank") for dump in dumps] for dumps in (theirs, ours)]
    if len(ours) != len(theirs) or (len(ours) > 1 and ranks[0] != ranks[1]):
        raise UsageError(f"{left} holds ranks {ranks[0]} and {right} holds {ranks[1]}")
    found = [
        compare_dumps(a, b, forced=forced or None, only=(first, second))
        for a, b in zip(theirs, ours, strict=True)
    ]
    worst = max(found, key=lambda comparison: _GRAVITY[comparison.report.verdict])
    if len(found) == 1:
        return worst
    verdicts = ", ".join(f"{c.candidate.dump.path.name} {c.report.verdict.value}" for c in found)
    report = worst.report
    return replace(
        worst, report=replace(report, warnings=(*report.warnings, f"ranks: {verdicts}"))
    )


_GRAVITY = {Verdict.IDENTICAL: 0, Verdict.INCONCLUSIVE: 1, Verdict.DIVERGED: 2}


def split_request(name: str) -> tuple[Path, str | None]:
    """A path, and the request that was named behind ``::``."""
    path, separator, request = name.partition("::")
    if separator and not request:
        raise UsageError(f"{name}: name a request behind '::'")
    return Path(path), request if separator else None


def split_pair(pair: str) -> tuple[str, str]:
    """Both requests of ``A=B``."""
    left, separator, right = pair.partition("=")
    if not (left and separator and right):
        raise UsageError(f"--pair {pair}: write BASELINE_REQUEST=CANDIDATE_REQUEST")
    return left, right
