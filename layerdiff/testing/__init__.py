"""Makes small dumps for tests: from arrays, or from a toy model that needs no torch."""

from layerdiff.testing.builder import DumpBuilder, Span
from layerdiff.testing.toy import Plant, ToyRequest, toy_dump

__all__ = ["DumpBuilder", "Plant", "Span", "ToyRequest", "toy_dump"]
