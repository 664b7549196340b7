"""What digests and sketches cost, as ratios of CPU time within one run.

    python benchmarks/bench_digest.py [ROUNDS]

One thread. Candidates take turns in a random order, each round; a figure is the median over the
rounds. "warm" reduces one tensor again and again; "cold" takes turns on enough tensors that none
is in a cache when its turn comes, as in a model's forward pass.
"""

# ruff: noqa: E402 (a BLAS reads its thread count when NumPy is imported)
import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from xxhash import xxh3_64_intdigest

from layerdiff.digest import derive_key, row_digests
from layerdiff_hooks.rows import digest_elements, digest_rows

WIDTH = 2048
ROWS = 4096
COLD_BYTES = 256 << 20
WORDS = {torch.bfloat16: torch.int16, torch.float32: torch.int32}

Candidate = Callable[[torch.Tensor], object]


def hash_rows(tensor: torch.Tensor) -> object:
    """The row digests alone: no facts about the tensor, no sketch."""
    words = tensor.view(WORDS[tensor.dtype]).numpy().reshape(len(tensor), -1)
    return row_digests(words, "bfloat16", (WIDTH,))


CANDIDATES: dict[str, Candidate] = {
    "read: torch int64 sum": lambda x: x.view(torch.int64).sum(),
    "read: xxh3 over the whole": lambda x: xxh3_64_intdigest(x.view(torch.int16).numpy().data),
    "row digests": hash_rows,
    "digest_rows, no sketch": lambda x: digest_rows(x, sketch=False),
    "digest_rows, sketch": digest_rows,
}


def measure(tensors: Sequence[torch.Tensor], rounds: int, repeat: int) -> dict[str, float]:
    """Median CPU time of each candidate in microseconds, over tensors that take turns."""
    times: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    turn = 0
    for _ in range(rounds):
        for name in random.sample(list(CANDIDATES), len(CANDIDATES)):
            run = CANDIDATES[name]
            start = time.process_time_ns()
            for _ in range(repeat):
                run(tensors[turn % len(tensors)])
                turn += 1
            times[name].append((time.process_time_ns() - start) / repeat / 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def report(title: str, costs: dict[str, float]) -> None:
    """The costs and the two ratios that issue 2 asks for."""
    print(title)
    for name, cost in costs.items():
        print(f"  {name:28} {cost:10.1f} us")
    read = min(cost for name, cost in costs.items() if name.startswith("read"))
    digest, whole, sketched = list(costs.values())[2:]
    print(f"  digest at {read / digest:.0%} of the bandwidth of reading once (target 50 %)")
    print(
        f"  a sketch adds {(sketched - whole) / whole:.2f} of digest_rows without one (target 1)"
    )
    print(f"  a sketch adds {(sketched - digest) / digest:.2f} of the bare row digests\n")


def median_us(run: Callable[[], object], rounds: int) -> float:
    """Median CPU time in microseconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - start) / 1e3)
    return statistics.median(times)


def main(rounds: int) -> None:
    """Prints all figures."""
    torch.set_num_threads(1)
    random.seed(0)
    for dtype in (torch.bfloat16, torch.float32):
        name = str(dtype).removeprefix("torch.")
        first = torch.randn(ROWS, 1, WIDTH).to(dtype)
        copies = COLD_BYTES // (first.numel() * first.element_size())
        report(f"[{ROWS}, {WIDTH}] {name}, warm", measure([first], rounds, 1))
        cold = [first.clone() for _ in range(copies)]
        report(f"[{ROWS}, {WIDTH}] {name}, cold", measure(cold, rounds, 1))
        for rows in (64, 1):
            report(f"[{rows}, {WIDTH}] {name}", measure([first[:rows]], rounds, 4096 // rows))
        count = first.numel()
        cost = median_us(partial(digest_elements, first), max(rounds // 4, 3)) * 1e3 / count
        print(f"  element digests, {name}: {cost:.2f} ns an element\n")
    short, key = np.zeros((ROWS, 16), np.uint8), derive_key(b"")
    keyed = median_us(partial(row_digests, short, "uint8", (16,), key), rounds)
    plain = median_us(partial(row_digests, short, "uint8", (16,)), rounds)
    print(f"a key adds {(keyed - plain) * 1e3 / ROWS:.0f} ns a row")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 31)
