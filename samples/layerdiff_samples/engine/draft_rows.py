"""What the drafter keeps of one request."""

from dataclasses import dataclass, field

from torch import Tensor

from layerdiff_samples.engine.writer import Writer


@dataclass(slots=True, eq=False)
class DraftRows:
    """The drafter's keys and values, and the hidden row its next one starts from."""

    key: Tensor
    """[max_length, kv_heads, head_dim]; rows from *length* on are provisional."""
    value: Tensor
    length: int
    """Rows that were made from the target's hidden rows."""
    anchor: Tensor
    """[width]: the target's last hidden row at position length - 1, zeros before the first."""
    steps: int = 0
    """Provisional rows behind *length*."""
    written: list[tuple[int, int, Writer]] = field(default_factory=list)
    """(start, stop, writer) of the rows, in order of position; empty where nobody knows."""

    def copy(self, length: int) -> "DraftRows":
        """The first *length* rows, on their own memory."""
        key, value = self.key.clone(), self.value.clone()
        key[length:] = 0
        value[length:] = 0
        written = [(first, min(stop, length), who) for first, stop, who in self.written]
        written = [part for part in written if part[0] < part[1]]
        return DraftRows(key, value, length, self.anchor.clone(), written=written)
