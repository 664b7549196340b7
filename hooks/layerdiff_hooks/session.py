"""What the parts of a recording share: the dump, the running pass, and how a fault is taken."""

import inspect
import os
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import nn

from layerdiff.format import schema
from layerdiff.vocabulary import EventKind, Moment, Phase, TensorKind
from layerdiff_hooks.few_rows import are_few, digest_few
from layerdiff_hooks.ledger import Ledger, Seen
from layerdiff_hooks.positions import Rows
from layerdiff_hooks.requests import Group
from layerdiff_hooks.rows import RowBlock, digest_rows, plain_tensor
from layerdiff_hooks.selection import SiteBook
from layerdiff_hooks.sites import Layer, Part

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class LayerTrace:
    """The layer that is running, and which of its parts have run."""

    layer: Layer
    finished: list[Part] = field(default_factory=list)

    @property
    def entry(self) -> str:
        """The site of the layer's input."""
        return f"{self.layer.name}:in"

    def before(self, part: Part) -> tuple[str, ...]:
        """Sites that a part's work depends on: the layer's input and what ran before it."""
        earlier = [
            f"{done.name}:out"
            for done in self.finished
            if done.container != part.container or (done.is_mixer and not part.is_mixer)
        ]
        return (self.entry, *earlier)

    @property
    def before_end(self) -> tuple[str, ...]:
        """Sites that what comes now may depend on: the layer's input and all that has run."""
        return (self.entry, *(f"{done.name}:out" for done in self.finished))


@dataclass(slots=True)
class PassState:
    """One forward of the model while it runs."""

    owner: nn.Module
    """The module whose call it is."""
    thread: int
    error: BaseException | None
    """What was being handled when it began, so as to tell a new error from it."""
    group: Group
    rows: Rows
    batch: int
    width: int
    first_column: int
    """Columns in the cache before it."""
    rowset: int
    phase: Phase
    tail_logits: bool = True
    """Whether fewer logits than columns are those of the last columns."""
    before: list[int] = field(default_factory=list)
    """Tokens per batch row before it."""
    stream: str = ""
    """The site whose output the next layer takes."""
    trace: LayerTrace | None = None
    part: Part | None = None
    layers: set[int] = field(default_factory=set)
    """Decoder layers that ran."""
    rope_known: bool = False
    cache_layers: set[int] = field(default_factory=set)
    """Cache layers whose keys, values or states were seen."""
    tails: list[tuple[int, str, list[tuple[int, Any]]]] = field(default_factory=list)
    """(cache layer, port, per batch row (first position, digests)) for recognition."""
    states: list[tuple[int, str, Any]] = field(default_factory=list)
    """(cache layer, port, digests u8 [batch, parts]) for recognition."""

    @property
    def thorough(self) -> bool:
        """Whether it also takes the digests that are free of order."""
        return self.width > 1 or not self.group.started


class Session:
    """One recording under way.

    Args:
        ledger: The dump's tables.
        book: Names of sites to ids.
        attention: The attention backend, a fact of each mixer's kernel.
    """

    def __init__(self, ledger: Ledger, book: SiteBook, attention: str | None) -> None:
        self.ledger = ledger
        self.book = book
        self.active: PassState | None = None
        self.off = False
        """Set for good by a fault or by the end."""
        self._attention = attention
        self._pid = os.getpid()
        self._gaps: set[str] = set()
        self._kernels: dict[tuple[object, ...], int] = {}

    # Faults and gaps

    def guard(self, body: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Runs what is ours so that nothing of it reaches the model."""
        try:
            if not torch.is_grad_enabled():
                return body(*args, **kwargs)
            with torch.no_grad():
                return body(*args, **kwargs)
        except Exception as error:
            self.fault(error)
        return None

    def fault(self, error: Exception) -> None:
        """Ends the recording and says so, once; the model runs on."""
        if self.off:
            return
        self.off, self.active = True, None
        text = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"layerdiff stopped recording, the dump is incomplete ({text})",
            RuntimeWarning,
            stacklevel=2,
        )
        try:
            self.ledger.forget()
            self.ledger.event(EventKind.FAULT, text=text)
            self.ledger.commit(phase=Phase.MIXED, flags=schema.PASS_BETWEEN, rowset=schema.NO_TEXT)
        except Exception:
            return  # The file itself failed: it lacks its closing record, which says as much.

    def gap(self, text: str, *, site: int = schema.NONE) -> None:
        """Something was not observed; each text once."""
        if text not in self._gaps:
            self._gaps.add(text)
            self.ledger.event(EventKind.GAP, site=site, text=text)

    @property
    def foreign_process(self) -> bool:
        """Whether this is a fork of the process that records."""
        return os.getpid() != self._pid

    def here(self) -> PassState | None:
        """The running pass, if this is its thread."""
        active = self.active
        if active is None or self.off:
            return None
        if active.thread != threading.get_ident():
            self.gap("modules ran in another thread than their pass")
            return None
        return None if active.group.lost else active

    # Observations

    def observe(
        self,
        active: PassState,
        site: int,
        tensor: torch.Tensor,
        *,
        kind: TensorKind,
        kernel: int,
    ) -> None:
        """The rows of a tensor whose columns are those of the pass, or the tensor as a whole."""
        if tensor.numel() == 0:
            return
        rows, grid = _lay_out(active, tensor, kind)
        flags = 0
        rowset = active.rowset
        if rows is None:
            flags = schema.FLAG_WHOLE_TENSOR
        elif rows is not active.rows:
            rowset = self.ledger.rowset(rows.spans)
        if grid.numel() == 0:
            return
        seen = Seen(site, Moment.COMPUTED, kind, rowset, kernel, flags)
        self.ledger.observe(seen, self.digest(grid, grid=True))

    def digest(
        self, rows: torch.Tensor, *, elements: bool = False, grid: bool = False
    ) -> RowBlock:
        """Digests of *rows* [rows, parts, ...], or of a grid of rows [*, *, ...].

        Few rows are sketched when their pass is committed.
        """
        plain, key = plain_tensor(rows), self.ledger.key
        if are_few(plain):
            return digest_few(plain, key=key, elements=elements, grid=grid)
        return digest_rows(plain, key=key, sketch=self.ledger.sketch, elements=elements, grid=grid)

    def kernel(self, active: PassState, module: nn.Module, tensor: torch.Tensor) -> int:
        """The id of the function that a module runs, with facts that decode passes share."""
        contiguous = tensor.is_contiguous()
        key = (type(module), active.batch, active.width, tensor.dtype, contiguous)
        known = self._kernels.get(key)
        if known is None:
            facts: dict[str, object] = {
                "T_q": active.width,
                "batch": active.batch,
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "contiguous": contiguous,
            }
            if self._attention and "attention" in type(module).__name__.lower():
                facts["attention"] = self._attention
            name = f"{type(module).__qualname__}.forward"
            known = self.ledger.kernel(name, facts, _source(type(module)))
            self._kernels[key] = known
        return known


def _lay_out(
    active: PassState, tensor: torch.Tensor, kind: TensorKind
) -> tuple[Rows | None, torch.Tensor]:
    """The rows that a tensor is made of, and their values on a grid [*, *, ...]."""
    batch, width = active.batch, active.width
    shape = tensor.shape
    if tensor.ndim >= 2 and shape[:2] == (batch, width):
        return active.rows, active.rows.grid(tensor)
    if tensor.ndim >= 2 and shape[0] == batch * width:
        return active.rows, active.rows.grid(tensor.reshape(batch, width, *shape[1:]))
    fewer = tensor.ndim == 3 and shape[0] == batch and shape[1] < width
    if fewer and kind is TensorKind.LOGITS and active.tail_logits:
        rows = active.rows.tail(shape[1])
        return rows, rows.grid(tensor)
    return None, tensor[None, None]


def _source(kind: type) -> str:
    """File and line of a module's forward, such as ``modeling_llama.py:232``."""
    forward = inspect.unwrap(kind.forward) if hasattr(kind, "forward") else None
    code = getattr(forward, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""


def split_rows(rows: Rows, digests: np.ndarray[Any, Any]) -> list[tuple[int, Any]]:
    """Digests [rows] per batch row, with the position of the first."""
    found, low = [], 0
    for _, start, stop in rows.spans:
        found.append((start, digests[low : low + stop - start]))
        low += stop - start
    return found
