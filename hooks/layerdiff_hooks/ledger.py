"""The tables of a dump as they grow: names become ids, facts become records; no torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from layerdiff.digest import finalise, root_digest
from layerdiff.format import schema
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind
from layerdiff_hooks.few_rows import sketch_copied
from layerdiff_hooks.rows import Copied, RowBlock

_MAX_COUNT = 0xFFFFFFFF

Span = tuple[int, int, int]
"""(request, start, stop): absolute positions, half-open."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where tensors are seen."""

    name: str
    kind: TensorKind = TensorKind.HIDDEN
    layer_index: int = -1
    layer_kind: str = ""
    reach: Reach = Reach.ROW
    inputs: tuple[str, ...] = ()
    """Names of the sites it directly depends on within a pass."""
    role: Role = Role.TARGET
    glue: bool = False
    """Whether it only hands on or adds up its inputs."""


class Seen(NamedTuple):
    """What one observation is, beside its digests."""

    site: int
    moment: Moment
    kind: TensorKind
    rowset: int
    kernel: int = schema.NO_TEXT
    flags: int = 0


class Ledger:
    """Interns and buffers; nothing is on disk before `commit`.

    Args:
        writer: Where the tables go.
        key: The derived key that finalises digests, or None.
        sketch: Whether every digest has a sketch.
        keep_tokens: Whether token ids are stored beside their chain.
    """

    def __init__(
        self, writer: DumpWriter, *, key: bytes | None, sketch: bool, keep_tokens: bool
    ) -> None:
        self.writer = writer
        self.key = key
        self.sketch = sketch
        self._keep_tokens = keep_tokens
        self._sites: dict[str, int] = {}
        self._kernels: dict[tuple[str, str, str], int] = {}
        self._rowsets: dict[tuple[Span, ...], int] = {}
        self._requests = 0
        self._observations: list[tuple[int, ...]] = []
        self._digests: list[np.ndarray[Any, Any]] = []
        self._sketches: list[np.ndarray[Any, Any] | None] = []
        """f4 [n, 5] of each block of digests; None where they wait in `_copied`."""
        self._copied: list[tuple[int, Copied]] = []
        """Observation, and what its sketches are made of."""
        self._forms: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
        """Dtype and shape to their text ids."""
        self._committed = 0
        """Digests of earlier passes."""
        self._counted = 0
        """Digests of this one."""
        self._elements: list[tuple[int, int, int]] = []
        self._events: list[tuple[int, ...]] = []
        self._nothing = writer.text("")  # Early, so that it fits the narrow dtype column.

    @property
    def pass_index(self) -> int:
        """The pass that is being recorded, or the next one."""
        return self.writer.pass_index

    def site(self, site: Site) -> int:
        """The id of *site*, known by its name; its inputs must have been given before."""
        known = self._sites.get(site.name)
        if known is not None:
            return known
        inputs = ",".join(str(self._sites[name]) for name in site.inputs if name in self._sites)
        text = self.writer.text
        row = (
            text(site.name),
            site.layer_index,
            text(site.layer_kind),
            site.role,
            site.kind,
            site.reach,
            schema.SITE_GLUE if site.glue else 0,
            text(inputs),
        )
        self.writer.append("sites", np.array([row], schema.SITE))
        self._sites[site.name] = identifier = len(self._sites)
        return identifier

    def site_index(self, name: str) -> int:
        """The id of a site that was observed; `schema.NONE` before it was."""
        return self._sites.get(name, schema.NONE)

    def kernel(self, name: str, facts: Mapping[str, object], source: str = "") -> int:
        """The id of a function and its launch facts."""
        key = (name, json.dumps(facts, sort_keys=True, default=str), source)
        known = self._kernels.get(key)
        if known is None:
            record = np.array([tuple(map(self.writer.text, key))], schema.KERNEL)
            self.writer.append("kernels", record)
            self._kernels[key] = known = len(self._kernels)
        return known

    def rowset(self, spans: Sequence[Span]) -> int:
        """The id of a list of spans; empty spans are dropped."""
        key = tuple([span for span in spans if span[2] > span[1]])
        if not key:
            return schema.NO_TEXT
        known = self._rowsets.get(key)
        if known is None:
            self._rowsets[key] = known = len(self._rowsets)
            self.writer.append("spans", np.array([(known, *span) for span in key], schema.SPAN))
        return known

    def request(
        self, name: str, *, batch_row: int = 0, explicit: bool = False, source: int, hit: int
    ) -> int:
        """The index of a new request."""
        flags = schema.REQUEST_EXPLICIT if explicit else 0
        row = (self.writer.text(name), self.pass_index, batch_row, flags, source, hit)
        self.writer.append("requests", np.array([row], schema.REQUEST))
        self._requests += 1
        return self._requests - 1

    def tokens(
        self, request: int, start: int, chain: np.ndarray[Any, Any], ids: Sequence[int], given: int
    ) -> None:
        """Token rows [start, start + n).

        Args:
            chain: u8 [n], unkeyed.
            ids: [n]; stored only where token ids were asked for.
            given: Positions below this were given by the user.
        """
        kept = ids if self._keep_tokens else [schema.NONE] * len(chain)
        stored = zip(finalise(chain, self.key).tolist(), kept, strict=True)
        self.append(
            "tokens",
            [
                (request, position, link, token, schema.TOKEN_GIVEN if position < given else 0)
                for position, (link, token) in enumerate(stored, start)
            ],
        )

    def observe(self, seen: Seen, block: RowBlock | None) -> None:
        """One observation; without a block it was carried."""
        if block is None:
            numbers, form = (0, 0, 0, 1), (self._nothing, self._nothing)
            self._record(seen, numbers, form, 0, schema.FLAG_CARRIED)
            return
        digests = block.digests
        rows, parts = digests.shape
        first = self._committed + self._counted
        self._counted += rows * parts
        self._digests.append(digests.reshape(-1))
        index = len(self._observations)
        if block.copied is not None:
            self._copied.append((index, block.copied))
        if self.sketch:
            known = block.sketches
            flat = None if known is None else known.reshape(-1, schema.SKETCH_WIDTH)
            self._sketches.append(flat)
        if block.elements is not None:
            self._elements += [(index, part, int(e)) for part, e in enumerate(block.elements)]
        self._record(
            seen,
            (first, root_digest(digests), rows, parts),
            self._form(block.dtype, block.shape),
            min(block.nan_count, _MAX_COUNT),
            schema.FLAG_ALL_ZERO if block.all_zero else 0,
        )

    def _record(
        self,
        seen: Seen,
        numbers: tuple[int, int, int, int],
        form: tuple[int, int],
        nan_count: int,
        flags: int,
    ) -> None:
        """An `observations` record; *numbers* are first digest, root, rows and parts."""
        site, moment, kind, rowset, kernel, known = seen
        head = (self.writer.pass_index, site, kernel, rowset)
        tail = (nan_count, kind, moment, known | flags)
        self._observations.append((*head, *numbers, *form, *tail))

    def _form(self, dtype: str, shape: tuple[int, ...]) -> tuple[int, int]:
        """The text ids of a dtype and a row's shape."""
        known = self._forms.get((dtype, shape))
        if known is None:
            text = self.writer.text
            known = text(dtype), text(",".join(map(str, shape)))
            self._forms[dtype, shape] = known
        return known

    def event(
        self,
        kind: EventKind,
        *,
        request: int = schema.NONE,
        site: int = schema.NONE,
        source: tuple[int, int] = (schema.NONE, schema.NONE),
        span: tuple[int, int] = (schema.NONE, schema.NONE),
        value: int = schema.NONE,
        text: str = "",
        place: tuple[int, int] = (schema.NONE, schema.NONE),
    ) -> None:
        """Something that happened.

        Args:
            source: (request, pass) that wrote what is read.
            span: Positions, half-open.
            place: Block or slot, and its generation.
        """
        words = self.writer.text(text) if text else schema.NO_TEXT
        head = (self.pass_index, kind, request, site, *source, *span, value, words)
        self._events.append((*head, *place))

    def append(self, table: str, rows: list[tuple[int, ...]]) -> None:
        """Plain records of a table that needs no interning, such as `rope` and `pads`."""
        if rows:
            self.writer.append(table, np.array(rows, schema.TABLES[table]))

    def commit(
        self, *, phase: Phase, flags: int = 0, batch: int = 0, width: int = 0, rowset: int
    ) -> int:
        """Write everything since the last commit as one pass."""
        observations = np.array(self._observations, schema.OBSERVATION)
        sketches = self._settle(observations)
        if self._digests:
            self.writer.append("digests", np.concatenate(self._digests))
            self._committed += self._counted
        if self.sketch:
            self.writer.append("sketches", np.concatenate(sketches))
        base = self.writer.append("observations", observations)
        elements: list[tuple[int, ...]] = [
            (base + index, part, digest) for index, part, digest in self._elements
        ]
        self.append("elements", elements)
        self.append("events", self._events)
        self.forget()
        return self.writer.commit(
            phase=phase, flags=flags, batch=batch, width=width, rowset=rowset
        )

    def _settle(self, observations: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """The pass's sketches in the order of its digests, and the NaN counts that waited."""
        waiting = [block for _, block in self._copied]
        made, nan_counts = sketch_copied(waiting, sketch=self.sketch)
        for (index, _), nan_count in zip(self._copied, nan_counts, strict=True):
            if nan_count:
                observations["nan_count"][index] = min(nan_count, _MAX_COUNT)
        if len(waiting) == len(self._sketches):
            return [made]
        ends = accumulate([block.rows for block in waiting])
        parts = iter(np.split(made, list(ends)))
        return [next(parts) if known is None else known for known in self._sketches]

    def forget(self) -> None:
        """Drop the observations and events that were not committed."""
        self._observations, self._elements, self._events = [], [], []
        self._digests, self._sketches, self._counted = [], [], 0
        self._copied = []

    @property
    def pending(self) -> bool:
        """Whether something waits for a commit."""
        return bool(self._observations or self._events)
