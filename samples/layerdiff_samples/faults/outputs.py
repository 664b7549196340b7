"""What is right up to the head, and given out wrong."""

from dataclasses import replace

from torch import Tensor

from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.faults.fault import Fault


def report_last_first(logits: Tensor) -> Tensor:
    """Fills the rows of the reported buffer from its end: with one row, nobody notices."""
    return logits.flip(0)


def _swapped(parts: Parts) -> Parts:
    return replace(parts, report_logits=report_last_first)


SWAPPED_ROWS = Fault("swapped-rows", _swapped)
FAULTS = (SWAPPED_ROWS,)
