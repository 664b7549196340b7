"""The whole fault battery: 200 single faults, 50 pairs without one, 20 pairs of faults.

Run: python benchmarks/battery_faults.py [--seed N] [--faults N] [--clean N]
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from tests.batteries.run_faults import run


def main() -> int:
    """Prints every failure and a last line with the counts; returns 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--clean", type=int, default=50)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = run(Path(folder), arguments.seed, arguments.faults, arguments.clean)
        for case, problem in cases:
            done += 1
            if problem is not None:
                failed += 1
                print(f"FAILED {case}: {problem}", flush=True)
            elif done % 25 == 0:
                print(f"{done} done", flush=True)
    print(f"{done - failed} passed, {failed} failed (seed {arguments.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
