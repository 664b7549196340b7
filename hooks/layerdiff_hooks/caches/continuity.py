"""Whether a cached tensor is still the one that was last hashed, by all that torch can tell."""

from dataclasses import dataclass, field

import torch


def version_of(tensor: torch.Tensor) -> int | None:
    """The counter of in-place writes; None for inference tensors, which keep none."""
    if tensor.is_inference():
        return None
    return tensor._version


@dataclass(slots=True)
class Memory:
    """The cached tensors as last seen, held so that their storage is not handed out again.

    Writes through ``.data``, NumPy or a raw pointer leave no trace here: that is why everything
    is hashed anew where a request begins or ends.
    """

    _seen: dict[tuple[int, str], tuple[torch.Tensor, int | None]] = field(default_factory=dict)

    def keep(self, layer: int, name: str, tensor: torch.Tensor) -> None:
        """*tensor* was hashed, or grew out of what was."""
        self._seen[layer, name] = (tensor, version_of(tensor))

    def unchanged(self, layer: int, name: str, tensor: torch.Tensor) -> bool:
        """Whether *tensor* is the same memory, or the first rows of it, and was not written to."""
        known = self._seen.get((layer, name))
        if known is None:
            return False
        before, version = known
        if tensor is not before and not _same_rows(before, tensor):
            return False
        return version_of(tensor) == version

    def forget(self) -> None:
        """Trust nothing any more."""
        self._seen.clear()


def _same_rows(before: torch.Tensor, now: torch.Tensor) -> bool:
    if before.dtype != now.dtype or before.device != now.device or before.ndim != now.ndim:
        return False
    if before.stride() != now.stride() or before.data_ptr() != now.data_ptr():
        return False
    rows = before.ndim - 2
    return all(
        n == b or (axis == rows and n < b)
        for axis, (n, b) in enumerate(zip(now.shape, before.shape, strict=True))
    )
