"""A dump from arrays, one pass after the other."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from layerdiff.digest import CHAIN_START, chain_tokens, finalise, root_digest, row_digests
from layerdiff.format import schema
from layerdiff.format.writer import DumpWriter
from layerdiff.sketch import sketch_rows
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind

Span = tuple[int, int, int]
"""(request, start, stop): absolute positions, half-open."""


class DumpBuilder:
    """Writes a dump with real digests; sites and rowsets are interned.

    Args:
        path: The file to make; an older one is replaced.
        arm: What the header says, beside *header*.
        header: More facts of the header.
        sketches: Whether each digest has a sketch.
        key: What `layerdiff.digest.derive_key` gave.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        arm: str = "cold",
        header: Mapping[str, object] | None = None,
        sketches: bool = True,
        key: bytes | None = None,
    ) -> None:
        self.writer = DumpWriter(path, {"arm": arm, **(header or {})}, overwrite=True)
        self.path = self.writer.path
        self._sketches = sketches
        self._key = key
        self._sites: dict[str, tuple[int, TensorKind]] = {}
        self._rowsets: dict[tuple[Span, ...], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the dump well."""
        self.writer.close()

    def request(
        self,
        name: str,
        tokens: Sequence[int],
        *,
        hit: int | None = 0,
        source: int | None = None,
        given: int | None = None,
        batch_row: int = 0,
    ) -> int:
        """A request and the chain of its tokens, of which the first *given* (all) are given."""
        row = (self.writer.text(name), self.writer.pass_index, batch_row, schema.REQUEST_EXPLICIT)
        known = (_number(source), _number(hit))
        index = self.writer.append("requests", np.array([(*row, *known)], schema.REQUEST))
        rows = np.zeros(len(tokens), schema.TOKEN)
        rows["request"], rows["position"] = index, np.arange(len(tokens))
        rows["chain"] = finalise(chain_tokens(CHAIN_START, tokens), self._key)
        rows["token"] = schema.NONE
        rows["flags"][: len(tokens) if given is None else given] = schema.TOKEN_GIVEN
        self.writer.append("tokens", rows)
        return index

    def site(
        self,
        name: str,
        *,
        kind: TensorKind = TensorKind.HIDDEN,
        layer_index: int | None = None,
        layer_kind: str = "",
        reach: Reach = Reach.ROW,
        inputs: Sequence[str] = (),
        role: Role = Role.TARGET,
        glue: bool = False,
    ) -> int:
        """The index of the site *name*, made on first use; its *inputs* must be there."""
        if name not in self._sites:
            text = self.writer.text
            ids = ",".join(str(self._sites[other][0]) for other in inputs)
            flags = schema.SITE_GLUE if glue else 0
            record = (text(name), _number(layer_index), text(layer_kind), role, kind, reach, flags)
            row = np.array([(*record, text(ids))], schema.SITE)
            self._sites[name] = (self.writer.append("sites", row), kind)
        return self._sites[name][0]

    def kernel(
        self, name: str, facts: Mapping[str, object] | None = None, source: str = ""
    ) -> int:
        """The index of a kernel."""
        texts = (name, json.dumps(facts or {}), source)
        row = tuple(self.writer.text(text) for text in texts)
        return self.writer.append("kernels", np.array([row], schema.KERNEL))

    def rowset(self, spans: Sequence[Span]) -> int:
        """The id of a list of spans, the same for the same list."""
        key = tuple(spans)
        if not key:
            return schema.NO_TEXT
        if key not in self._rowsets:
            self._rowsets[key] = identifier = len(self._rowsets)
            rows = np.array([(identifier, *span) for span in key], schema.SPAN)
            self.writer.append("spans", rows)
        return self._rowsets[key]

    def observe(
        self,
        site: str,
        values: np.ndarray[Any, Any],
        spans: Sequence[Span],
        *,
        moment: Moment = Moment.COMPUTED,
        parts: bool = False,
        dtype: str | None = None,
        kernel: int = schema.NO_TEXT,
        flags: int = 0,
    ) -> int:
        """Observe *values* at a known site.

        Args:
            site: Its name.
            values: [rows, *shape], or [rows, parts, *shape] with *parts*.
            spans: Whose rows they are.
            moment: When they were seen.
            parts: Whether the second axis has a digest of its own for each entry.
            dtype: What the digest is mixed with; the array's own if not given.
            kernel: What made them.
            flags: `schema.FLAG_*` bits.

        Returns:
            The index of the observation.
        """
        values = np.ascontiguousarray(values if parts else values[:, None])
        name = dtype or str(values.dtype.name)
        shape = values.shape[2:]
        cells = values.reshape(values.shape[0] * values.shape[1], -1)
        digests = row_digests(cells.view(np.uint8), name, shape, self._key)
        first = self.writer.append("digests", digests)
        if self._sketches:
            self.writer.append("sketches", sketch_rows(cells.astype(np.float32)))
        if not cells.view(np.uint8).any():
            flags |= schema.FLAG_ALL_ZERO
        text = self.writer.text
        sizes = (len(values), values.shape[1])
        layout = (text(name), text(",".join(map(str, shape))))
        nans = int(np.isnan(cells).sum()) if cells.dtype.kind == "f" else 0
        found = (first, root_digest(digests), *sizes, *layout, nans)
        return self._observation(site, spans, moment, kernel, found, flags)

    def carried(self, site: str, spans: Sequence[Span], moment: Moment = Moment.IN) -> int:
        """Observe that rows of a known site were read as they were left, without hashing."""
        found = (0, 0, 0, 1, 0, 0, 0)
        none = schema.NO_TEXT
        return self._observation(site, spans, moment, none, found, schema.FLAG_CARRIED)

    def _observation(
        self,
        site: str,
        spans: Sequence[Span],
        moment: Moment,
        kernel: int,
        found: tuple[int, ...],
        flags: int,
    ) -> int:
        index, kind = self._sites[site]
        head = (self.writer.pass_index, index, kernel, self.rowset(spans))
        record = np.array([(*head, *found, kind, moment, flags)], schema.OBSERVATION)
        return self.writer.append("observations", record)

    def event(
        self,
        kind: EventKind,
        *,
        request: int | None = None,
        site: str | None = None,
        source: tuple[int, int] | None = None,
        span: tuple[int, int] | None = None,
        value: int | None = None,
        text: str = "",
        place: tuple[int, int] | None = None,
    ) -> None:
        """Something that happened; *source* is (request, pass), *span* is positions.

        Args:
            place: Block or slot, and its generation.
        """
        where = (_number(request), self._sites[site][0] if site else schema.NONE)
        ends = (*(source or (schema.NONE,) * 2), *(span or (schema.NONE,) * 2))
        words = self.writer.text(text) if text else schema.NO_TEXT
        at = place or (schema.NONE,) * 2
        row = (self.writer.pass_index, kind, *where, *ends, _number(value), words, *at)
        self.writer.append("events", np.array([row], schema.EVENT))

    def commit(
        self, spans: Sequence[Span] = (), *, phase: Phase = Phase.PREFILL, flags: int = 0
    ) -> int:
        """Finish a pass over *spans*; returns its index."""
        width = max((stop - start for _, start, stop in spans), default=0)
        rowset = self.rowset(spans)
        return self.writer.commit(
            phase=phase, flags=flags, batch=len(spans), width=width, rowset=rowset
        )


def _number(value: int | None) -> int:
    return schema.NONE if value is None else value
