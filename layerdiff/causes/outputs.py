"""Causes behind the head: what was computed agrees, what is given out does not."""

from layerdiff.causes.ruling import Ruling
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.incoming import beyond_rounding, site_of, state_at
from layerdiff.vocabulary import Cause, TensorKind


def output_buffer(facts: OriginFacts) -> Ruling | None:
    """output-buffer: the head's logits agree, those that the engine reports do not."""
    if facts.site.kind is not TensorKind.LOGITS or not facts.find.bits:
        return None
    heads = [site_of(facts, index) for index in facts.site.inputs]
    heads = [site for site in heads if site.kind is TensorKind.LOGITS]
    if not heads or any(
        state_at(facts, site, facts.find.position) is not State.AGREES for site in heads
    ):
        return None
    words = f"the head's logits agree ({heads[0].name}), those that were given out do not"
    if beyond_rounding(facts) is False:
        return Ruling(Cause.OUTPUT_BUFFER, False, f"{words}, by rounding")
    return Ruling(Cause.OUTPUT_BUFFER, True, words)
