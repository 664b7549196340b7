"""Kernels that are chosen by how many rows a launch has, where it should be by what they are."""

from dataclasses import replace

from layerdiff_samples.engine.attention import ONE_QUERY, SEVERAL, AttentionKernel
from layerdiff_samples.engine.launch import Launch
from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.faults.fault import Fault


def by_queries(launch: Launch) -> AttentionKernel:
    """One query goes to the kernel for one, also where it is the last token of a prompt.

    A prompt that is computed in one pass never meets that kernel; one of which a hit leaves a
    single token does, and its last row is rounded in another way.
    """
    return ONE_QUERY if launch.rows == 1 else SEVERAL


def _by_queries(parts: Parts) -> Parts:
    return replace(parts, choose_attention=by_queries)


DISPATCH_BY_QUERIES = Fault("dispatch-by-queries", _by_queries)

FAULTS = (DISPATCH_BY_QUERIES,)
