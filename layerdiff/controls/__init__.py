"""What repeats, a split cold run, declined hits, poison and a reference decide about origins."""

from layerdiff.controls.plan import ControlRun, arms_of
from layerdiff.controls.settle import settle, wanted

__all__ = ["ControlRun", "arms_of", "settle", "wanted"]
