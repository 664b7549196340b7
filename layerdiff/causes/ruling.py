"""The answer of one rule."""

from dataclasses import dataclass

from layerdiff.vocabulary import Cause


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a cause fits the recorded facts of an origin."""

    cause: Cause
    fits: bool
    because: str
    """The fact that decided it."""
