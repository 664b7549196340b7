"""Prompts for cases: random tokens from a seed, and pieces of them put together."""

import random
from dataclasses import dataclass

VOCABULARY = 128


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a case."""

    name: str
    tokens: tuple[int, ...]
    max_new: int = 4


def document(length: int, seed: int = 0) -> tuple[int, ...]:
    """Random token ids, the same for the same seed."""
    return tuple(random.Random(seed).choices(range(VOCABULARY), k=length))
