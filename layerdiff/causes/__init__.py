"""Why an origin is there: one rule a cause, each a pure function of recorded facts."""

from layerdiff.causes.inputs import request_mismatch
from layerdiff.causes.kv import kv_length, kv_order
from layerdiff.causes.ruling import Ruling
from layerdiff.causes.state import corrupted, foreign, wrong_position, zero
from layerdiff.facts import OriginFacts

__all__ = ["RULES", "Ruling", "judge"]

RULES = (request_mismatch, zero, wrong_position, kv_order, kv_length, foreign, corrupted)
"""In order of precedence; the first that fits is the cause, others stand under `also`."""


def judge(facts: OriginFacts) -> list[Ruling]:
    """What every rule says of an origin; rules that do not apply to it say nothing."""
    return [ruling for rule in RULES if (ruling := rule(facts)) is not None]
