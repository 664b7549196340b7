"""``layerdiff demo``: record and compare a tiny hybrid model, from nothing, on the CPU."""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from layerdiff.commands.diff import EXIT_BY_VERDICT, RENDERERS, compare_files, write
from layerdiff.errors import UsageError
from layerdiff.model import Control, Origin, Report
from layerdiff.vocabulary import Cause, Verdict

LENGTH = 200


class DemoCommand:
    """Records the arms of the prefix experiment and prints the report."""

    name = "demo"
    help = "record and compare a tiny model, from nothing, on the CPU"
    description = f"""\
Builds a tiny random hybrid model (no download), runs a prompt of {LENGTH} tokens cold, again,
split, and warm (one request fills a cache with PREFIX tokens, another takes a copy over),
records every run and says where warm and cold part.

exit status: that of the report, see layerdiff diff --help (1: the runs diverge)"""
    epilog = """\
examples
  layerdiff demo                    bits differ: where, and is it the cache?
  layerdiff demo --prefix 64        another prefix, another first token
  layerdiff demo --fault            one bit of the copied cache is flipped
  layerdiff demo --tui              look around"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.add_argument(
            "--prefix", type=int, default=70, metavar="N", help="tokens to reuse (default 70)"
        )
        parser.add_argument(
            "--fault", action="store_true", help="flip one bit in the copied cache"
        )
        parser.add_argument("--format", choices=sorted(RENDERERS), default="text")
        parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it there")
        parser.add_argument("--keep", metavar="DIR", type=Path, help="keep the dumps here")
        parser.add_argument(
            "--tui", action="store_true", help="open cold and warm in the terminal"
        )
        parser.add_argument(
            "--seed", type=int, default=0, help="of weights and prompt (default 0)"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Records, compares, prints; returns the report's exit status."""
        if not 0 < arguments.prefix < LENGTH:
            raise UsageError(f"--prefix {arguments.prefix}: choose 1 to {LENGTH - 1}")
        with _folder(arguments.keep) as folder:
            _record_arms(arguments, folder)
            report = _report(folder)
            if arguments.keep:
                _say(f"dumps kept in {folder}")
            if arguments.tui:
                command = [sys.executable, "-m", "layerdiff", "tui"]
                names = [str(folder / "cold.h5"), str(folder / "warm.h5")]
                return subprocess.run([*command, *names], check=False).returncode
        write(RENDERERS[arguments.format](report), arguments.output)
        return EXIT_BY_VERDICT[report.verdict]


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="layerdiff-demo-") as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--keep {keep}: cannot make the folder ({error.strerror})") from None
    yield keep


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _record_arms(arguments: argparse.Namespace, folder: Path) -> None:
    """Records every arm, each on a line of its own on stderr."""
    _say("building a tiny hybrid model ...")
    import torch

    from layerdiff_samples import arms, tiny

    model = tiny.tiny_hybrid(arguments.seed)
    tokens = tiny.prompt(LENGTH, seed=arguments.seed)
    prefix = arguments.prefix
    fault = tiny.flip_one_bit if arguments.fault else None
    steps: dict[str, Callable[[Path], None]] = {
        "cold": lambda path: arms.cold(model, tokens, path),
        "cold-repeat": lambda path: arms.cold(model, tokens, path, "cold-repeat"),
        "cold-split": lambda path: arms.cold_split(model, tokens, prefix, path),
        "warm": lambda path: arms.warm(model, tokens, prefix, path, between=fault),
        "warm-repeat": lambda path: arms.warm(
            model, tokens, prefix, path, "warm-repeat", between=fault
        ),
    }
    with torch.no_grad():
        for number, (arm, step) in enumerate(steps.items(), start=1):
            _say(f"recording {arm} ({number} of {len(steps)}) ...")
            step(folder / f"{arm}.h5")


CONTROLS = (
    (
        "cold-repeat",
        "cold",
        "cold-repeat",
        "cold runs repeat: what differs elsewhere is no noise",
        "cold runs do not repeat: no difference can be trusted before that is understood",
    ),
    (
        "warm-repeat",
        "warm",
        "warm-repeat",
        "warm runs repeat as well",
        "warm runs do not repeat",
    ),
    (
        "cold-split",
        "cold-split",
        "warm",
        "save, copy and restore added nothing; code that ignores what it restored is not cleared",
        "the same chunks without reuse give other bits: the cache is involved",
    ),
)
"""Name, baseline, candidate, what follows from equal bits, and from a difference."""


def _report(folder: Path) -> Report:
    """The report on cold and warm, with the other arms as controls."""
    report = compare_files(str(folder / "cold.h5"), str(folder / "warm.h5")).report
    controls = []
    for name, baseline, candidate, equal, different in CONTROLS:
        found = compare_files(str(folder / f"{baseline}.h5"), str(folder / f"{candidate}.h5"))
        verdict = found.report.verdict
        says = {Verdict.IDENTICAL: equal, Verdict.DIVERGED: different}
        unclear = "; ".join(found.report.coverage.gaps) or "nothing can be said"
        controls.append(Control(name, baseline, candidate, verdict, says.get(verdict, unclear)))
    return replace(report, controls=tuple(controls), origins=_next_steps(report, controls))


def _next_steps(report: Report, controls: list[Control]) -> tuple[Origin, ...]:
    """What is left to do once the split control has spoken."""
    split = controls[-1].verdict
    words = (
        "reuse added nothing: the layer itself computes other bits at this size; look at its "
        "operations at both sizes"
        if split is Verdict.IDENTICAL
        else "the same chunks without reuse differ from warm: look at save, copy and restore first"
    )
    return tuple(
        replace(origin, next_step=words) if origin.cause is Cause.UNKNOWN else origin
        for origin in report.origins
    )
