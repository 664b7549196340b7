"""What the drafter keeps of one request."""

from dataclasses import dataclass

from torch import Tensor


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

    def copy(self, length: int) -> "DraftRows":
        """The first *length* rows, on their own memory."""
        key, value = self.key.clone(), self.value.clone()
        key[length:] = 0
        value[length:] = 0
        return DraftRows(key, value, length, self.anchor.clone())
