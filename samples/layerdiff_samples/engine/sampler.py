"""From logits to tokens."""

from torch import Tensor


def report_logits(logits: Tensor) -> Tensor:
    """What the head gave, in the buffer that is reported and sampled from: [rows, vocab]."""
    return logits.clone()


def sample(logits: Tensor) -> int:
    """The most likely token of one row [vocab]; of equal ones the lowest."""
    return int(logits.argmax())
