"""Random situations of the sample engine: 200 with a fault, 200 without one, 30 with two.

Run: python benchmarks/battery_cases.py [--seed N] [--count N] [--jobs N] [--fault NAME]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.batteries.cases import TABLE, Row, unlisted
from tests.batteries.run_cases import Kind, play_all


def main() -> int:
    """Prints every failure and a summary; returns 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=200, help="situations of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kind", choices=["faulty", "healthy", "double"], action="append")
    parser.add_argument("--fault", help="only rows of this name, such as zero-state")
    arguments = parser.parse_args()
    kinds: list[Kind] = arguments.kind or ["faulty", "healthy", "double"]
    rows: list[Row | None] = [None]
    if arguments.fault:
        rows = [row for row in TABLE if arguments.fault == str(row)]
    if not rows:
        parser.error(f"no row is called {arguments.fault}; there are {', '.join(map(str, TABLE))}")
    if missing := unlisted():
        print(f"faults without a row: {', '.join(missing)}")
    failed = 0
    for kind in kinds:
        count = max(1, arguments.count // 7) if kind == "double" else arguments.count
        seeds = range(arguments.seed, arguments.seed + count)
        found = _run(kind, seeds, rows, arguments.jobs)
        print(f"{kind}: {found} (seeds {seeds.start} to {seeds.stop - 1})", flush=True)
        failed += found.failed
    return 1 if failed else 0


@dataclass(slots=True)
class Counts:
    """How many situations of one kind came to what."""

    done: int = 0
    shown: int = 0
    """The arms differ in some byte."""
    failed: int = 0
    proved_and_wrong: int = 0

    def __str__(self) -> str:
        return (
            f"{self.done} done, {self.shown} with a difference, {self.failed} failed, "
            f"{self.proved_and_wrong} of them called proved"
        )


def _run(kind: Kind, seeds: range, rows: Sequence[Row | None], jobs: int) -> Counts:
    """Plays all seeds of one kind, and prints each failure."""
    counts, begun = Counts(), time.monotonic()
    for row in rows:
        for outcome in play_all(kind, seeds, jobs, row):
            counts.done += 1
            counts.shown += outcome.shown
            counts.proved_and_wrong += outcome.confident
            if outcome.problem is not None:
                counts.failed += 1
                print(f"FAILED {outcome.words()}", flush=True)
            seconds = time.monotonic() - begun
            progress = f"{kind} {counts.done} of {len(seeds) * len(rows)}, {seconds:.0f} s"
            print(f"\r{progress} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return counts


if __name__ == "__main__":
    sys.exit(main())
