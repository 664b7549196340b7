"""Causes that lie in what the model was given."""

import numpy as np

from layerdiff.causes.ruling import Ruling
from layerdiff.compare import State
from layerdiff.facts import OriginFacts
from layerdiff.fingerprint import weights_mismatch
from layerdiff.format.records import Site
from layerdiff.vocabulary import Cause, Moment, Reach, Role, TensorKind


def request_mismatch(facts: OriginFacts) -> Ruling | None:
    """request-mismatch: embeddings that differ although the tokens agree."""
    baseline, candidate = (line.dump for line in facts.lines)
    if not _is_embedding(facts) or weights_mismatch(baseline, candidate):
        return None
    return Ruling(
        Cause.REQUEST_MISMATCH,
        True,
        "the embeddings differ although the tokens agree: the model was given something else",
    )


def _is_embedding(facts: OriginFacts) -> bool:
    """Whether the origin's site is the first that a token meets, of what was observed."""
    site = facts.site
    if site.role is not Role.TARGET or site.kind is not TensorKind.HIDDEN:
        return False
    if site.reach is not Reach.ROW:
        return False
    return all(_unseen(facts, index) for index in site.inputs) and _before_layers(facts)


def _unseen(facts: OriginFacts, site: int) -> bool:
    column = facts.trace.columns.get((site, Moment.COMPUTED))
    return (
        column is None
        or not np.isin(
            column.diff.state[facts.find.positions], (State.AGREES, State.DIFFERS)
        ).any()
    )


def _is_door(site: Site) -> bool:
    """Whether a site only hands a layer its input; without an input of its own it is the first."""
    return site.glue or not site.inputs


def _before_layers(facts: OriginFacts) -> bool:
    """Whether no layer comes before the site, or only the door of the first one."""
    order = [site.index for site in facts.trace.order]
    layers = [site for site in facts.trace.order if site.layer_index is not None]
    if facts.site.layer_index is not None:
        return facts.site.layer_index == layers[0].layer_index and _is_door(facts.site)
    first = order.index(layers[0].index) if layers else len(order)
    return order.index(facts.site.index) < first
