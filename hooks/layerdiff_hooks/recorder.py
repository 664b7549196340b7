"""The explicit recorder, for engines that are no ``nn.Module``: they say what belongs where.

recorder = Recorder("warm.h5", arm="warm", engine="my-engine")
with recorder.request("r1", token_ids, hit=64) as request:
    with recorder.forward_pass([(request, 64, 200)]):
        recorder.observe("layers.0:out", hidden, layer_index=0)
recorder.close()
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from layerdiff.digest import CHAIN_START, chain_tokens
from layerdiff.errors import CaptureError
from layerdiff.format import schema
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind
from layerdiff_hooks.ledger import Ledger, Seen, Site, Span
from layerdiff_hooks.requests import Request
from layerdiff_hooks.rows import digest_elements, digest_rows
from layerdiff_hooks.secrecy import secrecy

Tensor: TypeAlias = torch.Tensor | npt.NDArray[Any]
Chunk: TypeAlias = tuple[Request | str, int, int]
"""(request, start, stop): absolute positions, half-open."""


class Recorder:
    """Writes one dump from what an engine tells it; for one thread.

    Args:
        path: The dump to write.
        arm: Under what condition the run is done, such as ``cold`` or ``warm``.
        engine: Who is recorded.
        facts: More for the header, such as ``{"model": {"class": ..., "architecture": ...,
            "weights": ...}}``: dumps whose class or architecture differ are not compared.
        key: A file whose bytes key all digests; the same file in all arms.
        sketch: Whether rows carry sketches; the default is yes, and no with a key.
        tokens: Whether token ids are stored.
        overwrite: Whether a file that is already there is replaced.

    Raises:
        CaptureError: The file or the key cannot be used.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        arm: str = "cold",
        engine: str = "custom",
        facts: Mapping[str, object] | None = None,
        key: Path | str | None = None,
        sketch: bool | None = None,
        tokens: bool = False,
        overwrite: bool = False,
    ) -> None:
        reduced = secrecy(key, sketch)
        header = {"arm": arm, "engine": engine, **reduced.facts}
        writer = DumpWriter(path, {**header, **(facts or {})}, overwrite=overwrite)
        self._ledger = Ledger(writer, key=reduced.key, sketch=reduced.sketch, keep_tokens=tokens)
        self._requests: dict[str, Request] = {}
        self._ended: dict[str, Request] = {}
        self._pass: tuple[Span, ...] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and not self._closed:
            text = f"the run ended by {kind.__name__}: what came after it is not here"
            self._ledger.event(EventKind.GAP, text=text)
        self.close()

    @contextmanager
    def request(
        self,
        request_id: str,
        token_ids: Sequence[int] = (),
        *,
        hit: int | None = None,
        source: Request | str | None = None,
    ) -> Iterator[Request]:
        """Begin a request.

        Args:
            request_id: Its name.
            token_ids: All that the user gives, what lies in a reused cache included.
            hit: Positions that it takes from a cache; 0 for none, None if that is not known.
            source: The request that filled that cache; it may have ended.
        """
        begun = self.begin(request_id, token_ids, hit=hit, source=source)
        yield begun
        self.end(begun)

    def begin(
        self,
        request_id: str,
        token_ids: Sequence[int] = (),
        *,
        hit: int | None = None,
        source: Request | str | None = None,
    ) -> Request:
        """Like `request`, for an engine that works on several at once; `end` it when done."""
        ended = self._ended.get(source) if isinstance(source, str) else None
        giver = None if source is None else ended or self._find(source)
        return self._begin(request_id, token_ids, hit, giver)

    def end(self, request: Request) -> None:
        """Nothing more comes of a request: its name may be used again."""
        if self._requests.get(request.name) is request:
            self._ended[request.name] = self._requests.pop(request.name)

    def generated(
        self, request: Request | str, token_ids: Sequence[int], *, start: int | None = None
    ) -> None:
        """Tokens that the model added to a request, in order.

        Args:
            start: Position of the first; behind the last known token by default. Tokens that were
                drafted at these positions and are other ones are replaced.
        """
        found = self._find(request)
        at = len(found.chain or ()) if start is None else start
        found.forward(self._ledger, at, [int(token) for token in token_ids])

    def drafted(self, request: Request | str, token_ids: Sequence[int], *, start: int) -> None:
        """Tokens that go through the model at positions from *start* on and may be rejected."""
        self.generated(request, token_ids, start=start)

    @contextmanager
    def forward_pass(
        self, chunks: Sequence[Chunk], *, phase: Phase | str = Phase.PREFILL, width: int = 0
    ) -> Iterator[int]:
        """One forward call; inside, what it computes is observed.

        Args:
            chunks: Which positions of which requests go through it, in the order of its rows.
            phase: What it does for them.
            width: Tokens per batch row, pads included; the longest chunk by default.
        """
        if self._pass is not None:
            raise CaptureError("a forward pass is open already; passes do not nest")
        spans = tuple((self._find(name).index, start, stop) for name, start, stop in chunks)
        self._pass = spans
        failed = True
        try:
            yield self._ledger.pass_index
            failed = False
        finally:
            self._pass = None
            self._ledger.commit(
                phase=Phase[phase.upper()] if isinstance(phase, str) else phase,
                flags=schema.PASS_FAILED if failed else 0,
                batch=len(spans),
                width=width or max((stop - start for _, start, stop in spans), default=0),
                rowset=self._ledger.rowset(spans),
            )

    def observe(
        self,
        site: str,
        tensor: Tensor,
        *,
        kind: TensorKind = TensorKind.HIDDEN,
        moment: Moment = Moment.COMPUTED,
        layer_index: int | None = None,
        layer_kind: str = "",
        role: Role = Role.TARGET,
        reach: Reach = Reach.ROW,
        inputs: Sequence[str] = (),
        rows: Sequence[Chunk] | None = None,
        kernel: int = schema.NO_TEXT,
        glue: bool = False,
    ) -> None:
        """Rows of one tensor.

        Args:
            site: Where it was seen.
            tensor: [rows, ...]; keys and values as [rows, heads, head_dim].
            rows: Which positions the rows are; those of the pass by default.
            inputs: Names of the sites it directly depends on, observed before.
            kernel: What `kernel` gave.
            glue: Whether it only hands on or adds up its inputs.

        Raises:
            CaptureError: The number of rows is another one than that of the positions.
        """
        spans = self._spans(rows)
        count = sum(stop - start for _, start, stop in spans)
        if tensor.shape[0] != count:
            raise CaptureError(f"{site}: {tensor.shape[0]} rows were given for {count} positions")
        described = Site(
            site, kind, _number(layer_index), layer_kind, reach, tuple(inputs), role, glue
        )
        number = self._ledger.site(described)
        seen = Seen(number, moment, kind, self._ledger.rowset(spans), kernel)
        block = digest_rows(tensor[:, None], key=self._ledger.key, sketch=self._ledger.sketch)
        if kind.is_kv and tensor.ndim == 3 and (count > 1 or moment is not Moment.COMPUTED):
            block = block._replace(elements=digest_elements(tensor, key=self._ledger.key))
        elif kind is TensorKind.TOPK and tensor.ndim == 2:
            elements = digest_elements(tensor[:, None], key=self._ledger.key)
            block = block._replace(elements=elements)
        self._ledger.observe(seen, block)

    def state(
        self,
        site: str,
        tensor: Tensor,
        *,
        request: Request | str,
        position: int,
        moment: Moment,
        kind: TensorKind = TensorKind.RECURRENT_STATE,
        parts_axis: int | None = 0,
        layer_index: int | None = None,
        layer_kind: str = "",
        role: Role = Role.TARGET,
        inputs: Sequence[str] = (),
        kernel: int = schema.NO_TEXT,
    ) -> None:
        """One request's recurrent or convolution state.

        Args:
            tensor: Without a batch axis.
            position: Tokens that it has consumed.
            parts_axis: The axis of heads, or of time for a convolution; None for one part.
        """
        spans = ((self._find(request).index, position, position + 1),)
        parts = tensor[None] if parts_axis is None else _first_axis(tensor, parts_axis)
        described = Site(
            site, kind, _number(layer_index), layer_kind, Reach.STATE, tuple(inputs), role
        )
        number = self._ledger.site(described)
        block = digest_rows(
            parts[None], key=self._ledger.key, sketch=self._ledger.sketch, elements=True
        )
        seen = Seen(number, moment, kind, self._ledger.rowset(spans), kernel)
        self._ledger.observe(seen, block)

    def event(
        self,
        kind: EventKind,
        *,
        request: Request | str | None = None,
        source: Request | str | None = None,
        source_pass: int = schema.NONE,
        start: int = schema.NONE,
        stop: int = schema.NONE,
        value: int = schema.NONE,
        text: str = "",
        place: int = schema.NONE,
        generation: int = schema.NONE,
        site: str = "",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """Something that happened to a cache or a request, told with the running or next pass.

        Args:
            place: The block or slot.
            generation: How often the place has been handed out.
            site: Name of a site that was observed.
            facts: Anything JSON can hold, in place of *text*.
        """
        words = text if facts is None else json.dumps(facts, sort_keys=True, default=str)
        self._ledger.event(
            kind,
            site=self._ledger.site_index(site) if site else schema.NONE,
            place=(place, generation),
            request=schema.NONE if request is None else self._find(request).index,
            source=(schema.NONE if source is None else self._find(source).index, source_pass),
            span=(start, stop),
            value=value,
            text=words,
        )

    def rope(
        self, request: Request | str, start: int, stop: int, first: int, step: int = 1
    ) -> None:
        """What position the rotary embedding was given: *first* at *start*, then *step* more each.

        Rows of which nothing is told are taken to have had their own position.
        """
        row = (self._ledger.pass_index, self._find(request).index, start, stop, first, step)
        self._ledger.append("rope", [row])

    def pads(self, request: Request | str, *, before: int = 0, after: int = 0) -> None:
        """How many pad rows went through the running pass before and after a request's own."""
        row = (self._ledger.pass_index, self._find(request).index, before, after)
        self._ledger.append("pads", [row])

    def kernel(self, name: str, *, source: str = "", **facts: object) -> int:
        """A function and its launch facts, for *kernel* of what it computes."""
        return self._ledger.kernel(name, facts, source)

    def close(self) -> None:
        """Close the dump; safe to repeat."""
        if self._closed:
            return
        self._closed = True
        if self._ledger.pending:
            self._ledger.commit(
                phase=Phase.MIXED, flags=schema.PASS_BETWEEN, rowset=schema.NO_TEXT
            )
        self._ledger.writer.close()

    def _begin(
        self, name: str, token_ids: Sequence[int], hit: int | None, source: Request | None
    ) -> Request:
        ledger = self._ledger
        served = schema.NONE if hit is None else hit
        index = ledger.request(
            name,
            explicit=True,
            source=schema.NONE if source is None else source.index,
            hit=served,
        )
        given = [int(token) for token in token_ids]
        begun = Request(index, 0, name, given=len(given))
        begun.adopt(ledger, given, chain_tokens(CHAIN_START, given).tolist())
        ledger.event(EventKind.LOOKUP, request=index, value=served)
        if hit is None:
            text = f"how much of request {name} came from a cache was not told"
            ledger.event(EventKind.GAP, request=index, text=text)
        self._requests[name] = begun
        return begun

    def _find(self, request: Request | str) -> Request:
        """A request by its handle, or by a name; an unknown name begins one."""
        if isinstance(request, Request):
            return request
        return self._requests.get(request) or self._begin(request, (), None, None)

    def _spans(self, rows: Sequence[Chunk] | None) -> tuple[Span, ...]:
        if rows is not None:
            return tuple((self._find(name).index, start, stop) for name, start, stop in rows)
        if self._pass is None:
            raise CaptureError("outside a forward pass the positions of rows must be given")
        return self._pass


def _number(layer_index: int | None) -> int:
    return schema.NONE if layer_index is None else layer_index


def _first_axis(tensor: Tensor, axis: int) -> Tensor:
    if isinstance(tensor, torch.Tensor):
        return tensor.movedim(axis, 0)
    return np.moveaxis(tensor, axis, 0)
