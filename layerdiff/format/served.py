"""What a request really took from a cache: the passes in a dump decide, not what was told."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from layerdiff.format import schema
from layerdiff.format.decode import Array
from layerdiff.format.records import Request, Site
from layerdiff.vocabulary import Phase, Role


def own_runs(passes: Array, spans: Array, observations: Array, sites: Sequence[Site]) -> Array:
    """Which positions of which request went through the target, one entry a pass and span.

    Passes that raised, that only draft or that observed nothing but the drafter do not count.

    Args:
        passes: `schema.PASS` records.
        spans: `schema.SPAN` records.
        observations: `schema.OBSERVATION` records.
        sites: By index.

    Returns:
        `schema.SPAN` records, in order of time, those of one pass in order of position.
    """
    none = schema.PASS_CLOSING | schema.PASS_BETWEEN | schema.PASS_FAILED
    counts = ((passes["flags"] & none) == 0) & (passes["phase"] != Phase.DRAFT)
    seen = np.bincount(observations["pass_index"], minlength=len(passes))[: len(passes)]
    target = np.array([site.role is Role.TARGET for site in sites], bool)
    by_target = observations["pass_index"][target[observations["site"]]]
    counts &= (seen == 0) | np.isin(np.arange(len(passes)), by_target)
    at, span = join_spans(passes["rowset"], spans)
    kept = np.flatnonzero(counts[at] & (span["stop"] > span["start"]))
    return span[kept[np.lexsort((span["start"][kept], at[kept]))]]


def join_spans(rowsets: Array, spans: Array) -> tuple[NDArray[np.int64], Array]:
    """The spans of many rowsets, and for each the index of its rowset in *rowsets*, ascending."""
    ordered = spans[np.argsort(spans["rowset"], kind="stable")]
    low = np.searchsorted(ordered["rowset"], rowsets, side="left")
    count = np.searchsorted(ordered["rowset"], rowsets, side="right") - low
    at = np.repeat(np.arange(len(rowsets)), count)
    within = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
    return at, ordered[low[at] + within]


def served_requests(requests: Sequence[Request], runs: Array) -> tuple[Request, ...]:
    """Requests with the hit that was served: it ends where their own first pass begins.

    Args:
        requests: As told.
        runs: What `own_runs` gave.
    """
    found, first = np.unique(runs["request"], return_index=True)
    begins = dict(zip(found.tolist(), runs["start"][first].tolist(), strict=True))
    return tuple(
        request
        if request.told is None or request.index not in begins
        else replace(request, hit=min(request.told, begins[request.index]))
        for request in requests
    )
