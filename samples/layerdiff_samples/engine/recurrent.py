"""The gated delta rule: three kernels, of which the chunked one rounds differently."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from layerdiff_samples.engine.launch import Launch, name_of
from layerdiff_samples.engine.tiles import pad_rows


class Rows(NamedTuple):
    """What the recurrence takes of each token."""

    query: Tensor
    """[rows, heads, head_dim]."""
    key: Tensor
    value: Tensor
    decay: Tensor
    """[rows, heads]: logarithm of what is kept of the state."""
    beta: Tensor
    """[rows, heads]: how much of the key's old value is replaced."""

    def between(self, start: int, stop: int) -> "Rows":
        """Rows [start, stop)."""
        return Rows(*(tensor[start:stop] for tensor in self))

    def padded(self, size: int) -> "Rows":
        """With zero rows behind: they leave the state as it is."""
        return Rows(*(pad_rows(tensor, 0, size - len(tensor)) for tensor in self))


class Recurred(NamedTuple):
    """What a kernel gives back."""

    out: Tensor
    """[rows, heads, head_dim]."""
    states: Sequence[Tensor]
    """After each row, or the last one alone; each [heads, head_dim, head_dim]."""
    slack: Tensor | None = None
    """Memory that the kernel may read though no token owns it."""


RecurrentFunction: TypeAlias = Callable[[Rows, Tensor, int], Recurred]
"""(rows, state before them, chunk size) -> outputs and states."""


@dataclass(frozen=True, slots=True)
class RecurrentKernel:
    """A function and how it is launched."""

    run: RecurrentFunction
    mode: str = "eager"

    @property
    def name(self) -> str:
        """The function's name."""
        return name_of(self.run)


def sequential(rows: Rows, state: Tensor, chunk: int) -> Recurred:
    """Token after token."""
    outs, states = [], []
    for row in range(len(rows.query)):
        out, state = _step(rows, row, state)
        outs.append(out)
        states.append(state)
    return Recurred(torch.stack(outs), states)


def four_wide(rows: Rows, state: Tensor, chunk: int) -> Recurred:
    """Four tokens a call, padded; each by the arithmetic of `sequential`."""
    outs: list[Tensor] = []
    states: list[Tensor] = []
    for at in range(0, len(rows.query), 4):
        group = rows.between(at, at + 4)
        count = len(group.query)
        found = sequential(group.padded(4), state, chunk)
        outs.append(found.out[:count])
        states.extend(found.states[:count])
        state = states[-1]
    return Recurred(torch.cat(outs), states)


def chunked(rows: Rows, state: Tensor, chunk: int) -> Recurred:
    """Closed form of *chunk* tokens at a time, counted from the first row, the tail padded."""
    outs: list[Tensor] = []
    slack = None
    for at in range(0, len(rows.query), chunk):
        group = rows.between(at, at + chunk)
        count = len(group.query)
        padded = group.padded(chunk)
        if count < chunk:
            slack = torch.cat([tensor[count:].flatten() for tensor in padded])
        out, state = chunk_form(padded, state)
        outs.append(out[:count])
    return Recurred(torch.cat(outs), [state], slack)


def chunk_form(rows: Rows, state: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and the last state of one whole chunk.

    With U the values as written, (I + A) U = B, where A holds what earlier keys of the chunk
    already say about a key and B what the state before the chunk leaves to be written.
    """
    query, key, value = (tensor.transpose(0, 1).contiguous() for tensor in rows[:3])
    beta = rows.beta.T.contiguous()[..., None]
    since = rows.decay.T.contiguous().cumsum(-1)
    size = since.shape[-1]
    lower = torch.ones(size, size, dtype=torch.bool).tril()
    gap = since[:, :, None] - since[:, None, :]
    kept = torch.where(lower, gap, -torch.inf).exp()
    from_start = since.exp()[..., None]
    overlap = (beta * kept * (key @ key.transpose(1, 2))).tril(-1)
    target = beta * (value - from_start * (key @ state))
    system = overlap + torch.eye(size)
    written = torch.linalg.solve_triangular(system, target, upper=False, unitriangular=True)
    out = from_start * (query @ state) + (kept * (query @ key.transpose(1, 2))) @ written
    left = kept[:, -1, :, None] * key
    after = since[:, -1].exp()[:, None, None] * state + left.transpose(1, 2) @ written
    return out.transpose(0, 1).contiguous(), after


CHUNKED = RecurrentKernel(chunked)
SEQUENTIAL = RecurrentKernel(sequential)
FOUR_WIDE = RecurrentKernel(four_wide)


def choose_recurrent(launch: Launch) -> RecurrentKernel:
    """The prompt in chunks, cold and warm alike; what was generated token after token."""
    if launch.prompt_part:
        return CHUNKED
    return FOUR_WIDE if launch.drafting else SEQUENTIAL


def _step(rows: Rows, row: int, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token: output [heads, head_dim] and the state after it."""
    key, value = rows.key[row], rows.value[row]
    faded = rows.decay[row].exp()[:, None, None] * state
    known = (key[:, :, None] * faded).sum(1)
    written = rows.beta[row][:, None] * (value - known)
    state = faded + key[:, :, None] * written[:, None, :]
    return (rows.query[row][:, :, None] * state).sum(1), state
