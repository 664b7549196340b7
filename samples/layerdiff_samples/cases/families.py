"""Other families of models that the same engine serves."""

from collections.abc import Sequence

import torch
from torch import Tensor

from layerdiff_samples.engine.checkpoints import Checkpoint
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import PrefixCache


class RowsAlone(PrefixCache):
    """Of a model without states a prefix is whole once its rows are there."""

    def complete(self, checkpoint: Checkpoint | None) -> bool:
        return True


def no_convolution(rows: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    """Leaves n-grams out."""
    return torch.zeros_like(rows)


def no_states(rows: Tensor, state: Tensor) -> Sequence[Tensor]:
    """What a convolution that is left out keeps."""
    return [state] * len(rows)


ATTENTION_ALONE = Parts(prefix_cache=RowsAlone, convolve=no_convolution, conv_states=no_states)
"""Nothing but attention, for layers of a and s: all it caches is rows."""
