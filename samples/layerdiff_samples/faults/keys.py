"""A prefix cache whose keys do not cover what they stand for."""

from collections.abc import Sequence
from dataclasses import replace

from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import PrefixCache
from layerdiff_samples.faults.fault import Fault

COVERED = 4
"""Tokens at the end of a block that its key is made of."""


class ShortKeys(PrefixCache):
    """Makes the key of a block of its last tokens and of the key before it."""

    def key(self, previous: str, tokens: Sequence[int]) -> str:
        return super().key(previous, tokens[-COVERED:])


def _short(parts: Parts) -> Parts:
    return replace(parts, prefix_cache=ShortKeys)


SHORT_KEYS = Fault("short-keys", _short)
FAULTS = (SHORT_KEYS,)
