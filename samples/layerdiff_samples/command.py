"""``layerdiff demo``: the cases that layerdiff comes with, from nothing, on the CPU."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layerdiff.commands.diff import RENDERERS, check_writable, emit, write
from layerdiff.errors import LayerdiffError, UsageError
from layerdiff.render.json import render_error
from layerdiff_hooks.hunt import Case, load_case
from layerdiff_hooks.hunt.progress import Progress
from layerdiff_samples.prefix_case import LENGTH, PREFIX, PrefixCase


class DemoCommand:
    """Hunts a sample case and prints the report."""

    name = "demo"
    help = "hunt a sample case, from nothing, on the CPU"
    description = f"""\
Without a NAME: builds a tiny random hybrid model of transformers (no download), runs a prompt of
{LENGTH} tokens cold, again, split, and warm (one request fills a cache with PREFIX tokens, another
takes a copy over), records every run and says where warm and cold part, and why.

With a NAME: the same for a case of the sample engine, whose faults are those of real
investigations. layerdiff demo --list names them.

exit status: that of the report, see layerdiff diff --help (1: the runs diverge)"""
    epilog = """\
examples
  layerdiff demo                      bits differ: where, and is it the cache?
  layerdiff demo --prefix 64          another prefix, another first token
  layerdiff demo --fault              one bit of the copied cache is flipped
  layerdiff demo --list               the cases of the sample engine
  layerdiff demo r3-zero-state        restore reads a slot that nothing has written
  layerdiff demo r4-all --keep dumps  keep the dumps
  layerdiff demo --tui                look around"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.add_argument("case", metavar="NAME", nargs="?", help="a case of the sample engine")
        parser.add_argument("--list", action="store_true", help="name the cases")
        parser.add_argument(
            "--prefix", type=int, metavar="N", help=f"tokens to reuse (default {PREFIX})"
        )
        parser.add_argument(
            "--fault", action="store_true", help="flip one bit in the copied cache"
        )
        parser.add_argument("--seed", type=int, help="of weights and prompt (default 0)")
        parser.add_argument("--format", choices=sorted(RENDERERS), default="text")
        parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write it there")
        parser.add_argument("--keep", metavar="DIR", type=Path, help="keep the dumps here")
        parser.add_argument(
            "--tui", action="store_true", help="open cold and warm in the terminal"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Hunts and prints; returns the report's exit status."""
        if arguments.list:
            return _list()
        check_writable(arguments.output)
        case = _case(arguments)
        # Here and not above: --help, --list and wrong words need no torch.
        from layerdiff_hooks.hunt.hunting import hunt

        with _folder(arguments.keep) as folder:
            try:
                report = hunt(case, folder, progress=Progress(sys.stderr))
            except LayerdiffError as error:
                if arguments.format == "json":
                    write(render_error(str(error)), arguments.output)
                raise
            if arguments.keep:
                print(f"dumps kept in {folder}", file=sys.stderr)
            if arguments.tui:
                names = [str(folder / f"{arm}.h5") for arm in (case.baseline, case.candidate)]
                command = [sys.executable, "-m", "layerdiff", "tui", *names]
                return subprocess.run(command, check=False).returncode
        return emit(report, arguments.format, arguments.output)


def _case(arguments: argparse.Namespace) -> Case:
    if arguments.case is None:
        prefix = PREFIX if arguments.prefix is None else arguments.prefix
        if not 0 < prefix < LENGTH:
            raise UsageError(f"--prefix {prefix}: choose 1 to {LENGTH - 1}")
        return PrefixCase(prefix, arguments.seed or 0, fault=arguments.fault)
    for flag in ("prefix", "seed", "fault"):
        if getattr(arguments, flag) not in (None, False):
            raise UsageError(f"--{flag} belongs to the demo without a NAME, not {arguments.case}")
    from layerdiff_samples.cases import CASES

    return CASES.get(arguments.case) or load_case(arguments.case)


def _list() -> int:
    from layerdiff_samples.cases import CASES

    width = max(map(len, CASES))
    for name, case in CASES.items():
        print(f"{name:<{width}}  {case.title}")
    return 0


@contextmanager
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
