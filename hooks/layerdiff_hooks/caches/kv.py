"""Caches of keys and values: what a layer holds, and which columns its slots stand for.

Works on what the cache classes of transformers have in common: ``cache.layers[i]`` with ``keys``
and ``values`` [batch, heads, slots, head_dim]. A dynamic layer holds all columns, a sliding one
the last few, a static one is filled from the front or holds the last few.
"""

from typing import Any, TypeGuard

import torch


def is_cache(value: object) -> bool:
    """Whether *value* is a cache that layers update."""
    if value is None or isinstance(value, torch.Tensor):
        return False
    layers = getattr(value, "layers", None)
    if not isinstance(layers, list) or isinstance(value, torch.nn.Module):
        return False
    return callable(getattr(value, "update", None))


def filled(tensor: object) -> TypeGuard[torch.Tensor]:
    """Whether a layer's ``keys`` or ``values`` hold anything."""
    return isinstance(tensor, torch.Tensor) and tensor.ndim == 4 and tensor.shape[2] > 0


def is_kv(layer: object) -> bool:
    """Whether a cache layer holds keys and values."""
    return filled(getattr(layer, "keys", None)) and filled(getattr(layer, "values", None))


def layer_length(layer: Any) -> int:
    """Columns that a layer says it has seen; those a window dropped count."""
    try:
        return int(layer.get_seq_length())
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return int(layer.keys.shape[2])


def kv_length(cache: Any) -> int | None:
    """Columns in the cache as the model reckons; None when no layer holds keys."""
    if not any(is_kv(layer) for layer in cache.layers):
        return None
    try:
        return int(cache.get_seq_length())
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return next(layer_length(layer) for layer in cache.layers if is_kv(layer))


def first_column(layer: object, slots: int, columns: int) -> int:
    """The column of slot 0, given that the layer has seen *columns*."""
    if getattr(layer, "is_sliding", False):
        return max(0, columns - slots)
    return 0
