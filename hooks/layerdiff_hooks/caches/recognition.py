"""Finds who filled a cache by its bits, when it is a copy of one that was seen being filled."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from layerdiff.digest import root_digest
from layerdiff_hooks.caches import kv
from layerdiff_hooks.caches.state import states_of
from layerdiff_hooks.requests import Group
from layerdiff_hooks.rows import digest_rows

_LAYERS = 4
"""Cache layers with keys, and with states, that are looked at, spread over the depth."""
_ENTRIES = 1 << 17

Key = tuple[int, str, int]
"""(cache layer, port, digest)."""
Owner = tuple[Group, int, int]
"""(group, batch row, tokens held)."""


@lru_cache(maxsize=64)
def spread(layers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """At most *count* of *layers*, ends included, the last one first."""
    ordered = sorted(layers)
    if len(ordered) <= count:
        return tuple(ordered[::-1])
    steps = np.linspace(len(ordered) - 1, 0, count).round().astype(int)
    return tuple([ordered[step] for step in steps])


class Recognition:
    """What caches held at the end of each pass, the newest entries only.

    Args:
        key: The key of the recording's digests.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._owners: dict[Key, Owner] = {}

    def remember_rows(self, group: Group, layer: int, port: str, digests: Any) -> None:
        """Rows that a pass handed to the cache: all keys, to know a cache that was cut.

        Args:
            digests: Per batch row, (first position, u8 [n]).
        """
        for row, (start, values) in enumerate(digests):
            first = 0 if port == "key" else max(0, len(values) - 1)
            for offset in range(first, len(values)):
                held = start + offset + 1
                self._add((layer, port, int(values[offset])), (group, row, held))

    def remember_state(self, group: Group, layer: int, port: str, digests: Any) -> None:
        """States u8 [batch, parts] that a pass left."""
        for row, parts in enumerate(digests):
            held = int(group.table.lengths[row])
            self._add((layer, port, root_digest(parts)), (group, row, held))

    def _add(self, key: Key, owner: Owner) -> None:
        self._owners.pop(key, None)
        self._owners[key] = owner
        while len(self._owners) > _ENTRIES:
            del self._owners[next(iter(self._owners))]

    @staticmethod
    def chosen(cache: Any) -> set[int]:
        """The cache layers that stand for the whole."""
        keys, states = _families(cache)
        return {*spread(keys, _LAYERS), *spread(states, _LAYERS)}

    def owners(self, cache: Any, batch: int) -> list[Owner | None]:
        """Per batch row, the request and length that at least half of the probes speak for.

        Rows of the first layer depend on their own token alone, so they need a second opinion.
        """
        votes: list[dict[Owner, list[int]]] = [{} for _ in range(batch)]
        layers: list[int] = []
        for key_rows in self._probes(cache, batch):
            layers.append(key_rows[0][0])
            for row, key in enumerate(key_rows):
                owner = self._owners.get(key)
                if owner is not None:
                    votes[row].setdefault(owner, []).append(key[0])
        found: list[Owner | None] = []
        for ballot in votes:
            owner, voters = max(ballot.items(), key=lambda v: len(v[1]), default=(None, []))
            alone = set(voters) == {min(layers, default=0)} != set(layers)
            found.append(owner if 2 * len(voters) >= len(layers) and not alone else None)
        return found

    def _probes(self, cache: Any, batch: int) -> Iterator[list[Key]]:
        """Keys of one row or state in all batch rows, at several places of the cache."""
        for index in sorted(self.chosen(cache)):
            layer = cache.layers[index]
            if kv.is_kv(layer) and layer.keys.shape[0] == batch:
                slots = min(kv.layer_length(layer), layer.keys.shape[2])
                if slots:
                    yield self._rows(index, "key", layer.keys[:, :, slots - 1])
                    yield self._rows(index, "value", layer.values[:, :, slots - 1])
            for state in states_of(layer):
                if state.tensor.shape[0] == batch:
                    block = digest_rows(state.parts.detach(), key=self._key, sketch=False)
                    yield [(index, state.port, root_digest(parts)) for parts in block.digests]

    def _rows(self, index: int, port: str, rows: torch.Tensor) -> list[Key]:
        block = digest_rows(rows.detach().unsqueeze(1), key=self._key, sketch=False)
        return [(index, port, int(digest)) for digest in block.digests[:, 0]]


def _families(cache: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cache layers with keys, and those with states."""
    layers = list(enumerate(cache.layers))
    keys = tuple([index for index, layer in layers if kv.is_kv(layer)])
    return keys, tuple([index for index, layer in layers if any(True for _ in states_of(layer))])
