"""A fixed-seed slice of the fault battery; benchmarks/battery_faults.py runs the whole."""

from pathlib import Path

import torch

from tests.batteries.run_faults import run


def test_every_single_fault_is_the_first_origin(tmp_path: Path) -> None:
    """Random bits and rows, at exactly their layer, position and tensor; none without a fault."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    problems = [
        f"{case}: {problem}"
        for case, problem in run(tmp_path, seed=1, faults=40, clean=12)
        if problem is not None
    ]
    torch.set_num_threads(before)
    assert not problems
