"""What recording costs a small llama, as CPU time within one run.

    python benchmarks/bench_hooks.py [ROUNDS]

One thread. In each round the plain, the paused and the recorded model take turns; a figure is the
median over the rounds. "hook" calls a module with and without one of the recorder's own hooks,
paused, so what torch does for a hook counts.
"""

# ruff: noqa: E402 (a BLAS reads its thread count when NumPy is imported)
import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from layerdiff.format.reader import Dump
from layerdiff_hooks import record
from tests.families import build, tokens

PROMPT = 256
STEPS = 60
LONG = 440
"""Decode passes over which the file's growth is measured."""
CALLS = 5000

Work = Callable[[Any, torch.Tensor], float]


def prefill(model: Any, ids: torch.Tensor) -> float:
    """CPU seconds of a pass of 256 rows."""
    start = time.process_time()
    model(ids[:, :PROMPT], use_cache=True)
    return time.process_time() - start


def decode(model: Any, ids: torch.Tensor) -> float:
    """CPU seconds of a pass of one row, the mean of many."""
    cache = model(ids[:, :PROMPT], use_cache=True).past_key_values
    start = time.process_time()
    for column in range(PROMPT, PROMPT + STEPS):
        model(ids[:, column : column + 1], past_key_values=cache, use_cache=True)
    return (time.process_time() - start) / STEPS


def observations_of(path: Path, pass_index: int) -> int:
    """Observations of one pass."""
    with Dump.open(path) as dump:
        return int((dump.observations["pass_index"] == pass_index).sum())


def compare(model: Any, work: Work, rounds: int, path: Path) -> None:
    """Prints what recording adds to a kind of pass."""
    ids = tokens(1, PROMPT + STEPS)
    plain, paused, recorded = [], [], []
    work(model, ids)
    for _ in range(rounds):
        plain.append(work(model, ids))
        with record(model, path, overwrite=True) as recorder:
            work(model, ids)
            recorded.append(work(model, ids))
            last = recorder.passes - 1
            recorder.pause()
            paused.append(work(model, ids))
    seen = observations_of(path, last)
    base, cost = statistics.median(plain), statistics.median(recorded)
    print(
        f"{work.__name__:8} plain {base * 1e3:7.2f} ms, recorded {cost * 1e3:7.2f} ms, "
        f"ratio {cost / base:.2f}, paused {statistics.median(paused) / base:.2f}; "
        f"{seen} observations at {(cost - base) / seen * 1e6:.0f} us"
    )


def call(module: nn.Module, values: torch.Tensor) -> float:
    """CPU microseconds of one call of a module."""
    start = time.process_time()
    for _ in range(CALLS):
        module(values)
    return (time.process_time() - start) / CALLS * 1e6


def time_hooks(model: Any, rounds: int, path: Path) -> None:
    """Prints what a paused hook adds to the call of a module."""
    values = torch.zeros(1)
    bare, before, after = nn.Identity(), nn.Identity(), nn.Identity()
    with record(model, path, overwrite=True) as recorder:
        recorder.pause()
        layer = model.model.layers[0]
        (enter,), (leave,) = layer._forward_pre_hooks.values(), layer._forward_hooks.values()
        before.register_forward_pre_hook(enter, with_kwargs=True)
        after.register_forward_hook(leave, with_kwargs=True)
        costs = [[call(module, values) for module in (bare, before, after)] for _ in range(rounds)]
    plain, pre, post = (statistics.median(column) for column in zip(*costs, strict=True))
    print(f"a paused hook: pre {pre - plain:.2f} us, post {post - plain:.2f} us (target 2)")


def weigh(model: Any, path: Path) -> None:
    """Prints the file's growth over many decode passes."""
    ids = tokens(1, LONG + 60)
    with record(model, path, overwrite=True):
        cache = model(ids[:, :20], use_cache=True).past_key_values
        sizes = []
        for column in range(20, 60 + LONG):
            if column in (60, 59 + LONG):
                sizes.append(path.stat().st_size)
            model(ids[:, column : column + 1], past_key_values=cache, use_cache=True)
    with Dump.open(path) as dump:
        first, last = 60 - 20 + 1, 59 + LONG - 20 + 1
        indices = dump.observations["pass_index"]
        seen = int(((indices >= first) & (indices < last)).sum())
    print(f"decode: {(sizes[1] - sizes[0]) / seen:.0f} bytes an observation (target 96)")


def main(rounds: int) -> None:
    """Prints all figures."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    model = build("llama", dtype=torch.float32)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.h5"
        for work in (prefill, decode):
            compare(model, work, rounds, path)
        time_hooks(model, rounds, path)
        weigh(model, path)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
