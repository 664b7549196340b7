"""A request, and the chunk of it that goes through one pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from layerdiff.vocabulary import Phase
from layerdiff_samples.engine.draft_rows import DraftRows
from layerdiff_samples.engine.writer import Writer

State: TypeAlias = dict[str, torch.Tensor]
"""What a request keeps in its slot, by name, such as ``layers.0:recurrent``."""


@dataclass(slots=True, eq=False)
class Request:
    """One prompt and what is generated for it."""

    name: str
    prompt: tuple[int, ...]
    max_new: int
    reuse: bool = True
    layout: tuple[tuple[int, int], ...] | None = None
    """Prefill chunks that the caller wants; None leaves them to the scheduler."""
    tokens: list[int] = field(default_factory=list)
    """All that is known: the prompt and what was generated."""
    computed: int = 0
    """Positions that went through the model and were kept."""
    kv_length: int = 0
    """Rows that the paged cache says it holds."""
    hit: int = 0
    begun: bool = False
    replay_until: int = 0
    """Below this, positions were computed before and are computed again."""
    written: list[tuple[int, int, Writer]] = field(default_factory=list)
    """(start, stop, writer) of the rows of the paged cache, in order of position."""
    table: list[int] = field(default_factory=list)
    slot: int | None = None
    published: int = 0
    """Blocks that were offered to the prefix cache."""
    on_grid: bool = True
    """Whether every chunk so far began on the grid of the chunked kernel."""
    drafts: list[int] = field(default_factory=list)
    draft_rows: DraftRows | None = None

    @property
    def generated(self) -> list[int]:
        """Tokens beyond the prompt."""
        return self.tokens[len(self.prompt) :]

    @property
    def finished(self) -> bool:
        """Whether all that was asked for is there."""
        return len(self.tokens) - len(self.prompt) >= self.max_new


@dataclass(slots=True, eq=False)
class Chunk:
    """Positions [start, stop) of one request in one pass."""

    request: Request
    start: int
    stop: int
    phase: Phase
    tokens: Sequence[int]
    """Ids at [start, stop): drafts included."""
    before: State = field(default_factory=dict)
    """The request's state as the pass reads it, after `start` tokens."""
    after: dict[int, State] = field(default_factory=dict)
    """The state by the number of tokens consumed, where the kernels gave it."""

    @property
    def rows(self) -> int:
        """Tokens in it."""
        return self.stop - self.start

    @property
    def prompt_part(self) -> bool:
        """Whether it belongs to the prompt: rows that prefill computes, also in a replay."""
        return self.stop <= len(self.request.prompt)

    @property
    def samples(self) -> bool:
        """Whether a token follows that nobody knows yet."""
        return self.stop >= len(self.request.tokens)

    def keep(self, name: str, states: Sequence[torch.Tensor]) -> None:
        """Take what a layer left: one state a row, or the last one alone.

        A prefill pass keeps only the last: nothing of it can be rejected.
        """
        if self.prompt_part:
            states = states[-1:]
        first = self.stop - len(states) + 1
        for position, state in enumerate(states, first):
            self.after.setdefault(position, {})[name] = state
