"""What a launch knows about itself when a kernel is chosen for it."""

from dataclasses import dataclass

from layerdiff.vocabulary import Phase
from layerdiff_samples.engine.request import Chunk


@dataclass(frozen=True, slots=True)
class Launch:
    """Facts of one kernel launch: one chunk of one request in one layer."""

    phase: Phase
    rows: int
    start: int
    prompt_part: bool
    """Whether the rows are the prompt's; false for generated and drafted ones."""
    drafting: bool
    """Whether the engine decodes by verifying drafts."""
    hit: int
    first: bool
    """Whether this is the first pass of its request after a lookup."""


def name_of(function: object) -> str:
    """A function's name; for another callable that of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def launch_of(chunk: Chunk, drafts: int) -> Launch:
    """The facts of a chunk."""
    request = chunk.request
    return Launch(
        chunk.phase,
        chunk.rows,
        chunk.start,
        chunk.prompt_part,
        drafts > 0,
        request.hit,
        chunk.start == request.hit,
    )
