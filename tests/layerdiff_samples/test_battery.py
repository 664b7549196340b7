"""A fixed-seed slice of the battery of cases; benchmarks/battery_cases.py runs the whole."""

import pytest

from tests.batteries.cases import unlisted
from tests.batteries.run_cases import Kind, play

SLICE: tuple[tuple[Kind, int], ...] = (
    *(("faulty", seed) for seed in range(0, 39, 3)),
    *(("healthy", seed) for seed in (*range(5), 18)),
    *(("double", seed) for seed in (0, 9)),
)


@pytest.mark.parametrize(("kind", "seed"), SLICE)
def test_a_report_says_what_the_bytes_say(kind: Kind, seed: int) -> None:
    """The first cell that differs and its cause; identical where nothing does; both of two."""
    assert play(kind, seed).problem is None


def test_every_fault_of_the_samples_has_a_row() -> None:
    """A new fault has to say what it must be called."""
    assert not unlisted()
