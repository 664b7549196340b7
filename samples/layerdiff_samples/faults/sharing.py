"""Prefixes whose parts were made by several requests, or that cover too much of a prompt."""

from dataclasses import replace

from layerdiff_samples.engine.parts import Parts
from layerdiff_samples.engine.prefix_cache import Hit, PrefixCache
from layerdiff_samples.engine.request import Request
from layerdiff_samples.engine.scheduler import Scheduler
from layerdiff_samples.faults.fault import Fault


class LastCacheableBoundary(Scheduler):
    """Ends a prefill chunk only at boundaries that it expects to be asked for.

    The last one is a block before the last whole block, as drafts may reject what lies behind it.
    A prompt of fewer than two blocks crosses a boundary without stopping there: it fills the block
    from a longer chunk, and leaves no state at its end.
    """

    def chunk_end(self, request: Request, start: int, budget: int) -> int:
        length, block = len(request.prompt), self.config.block
        last = length // block * block - block
        stop = (start // block + 1) * block
        return min(stop if stop <= last else length, start + budget)


class WholePrompt(PrefixCache):
    """Serves a prompt that is cached as a whole as a whole.

    A token has to be computed all the same, so the last one goes through once more, on top of rows
    that hold it already.
    """

    def limit(self, request: Request) -> int:
        return len(request.prompt)

    def lookup(self, request: Request) -> Hit:
        hit = super().lookup(request)
        if hit.length < len(request.prompt):
            return hit
        return replace(hit, length=hit.length - 1)


def _last_boundary(parts: Parts) -> Parts:
    return replace(parts, scheduler=LastCacheableBoundary)


def _whole_prompt(parts: Parts) -> Parts:
    whole = type(WholePrompt.__name__, (WholePrompt, parts.prefix_cache), {})
    return replace(parts, prefix_cache=whole)


CHECKPOINT_THRESHOLD = Fault("checkpoint-threshold", _last_boundary)
WHOLE_PROMPT = Fault("whole-prompt", _whole_prompt)

FAULTS = (CHECKPOINT_THRESHOLD, WHOLE_PROMPT)
