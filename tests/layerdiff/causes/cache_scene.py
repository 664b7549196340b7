"""A layer with keys, attention and a state, run pass by pass: its rows follow from tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from layerdiff.comparison import compare_dumps
from layerdiff.digest import CHAIN_START, chain_tokens, element_digests
from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.model import Origin, Report
from layerdiff.testing import DumpBuilder
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, TensorKind

Array = np.ndarray[Any, Any]

TOKENS = (5, 3, 8, 1, 9, 2, 7, 4, 6, 0, 3, 5, 1, 8)
OTHER = (6, 1, 1, 9, 0, 4, 2, 8, 5, 7, 2, 3, 0, 9)

IN, KEY, ATTENTION, STATE, MIX = range(5)


def key(tokens: Sequence[int], position: int, nudge: float = 0.0) -> Array:
    """The key of a position: f4 [2, 4]."""
    return _value(tokens, position + 1, KEY, (2, 4), nudge)


def state(tokens: Sequence[int], position: int, nudge: float = 0.0) -> Array:
    """The state after *position* tokens: f4 [2, 3, 4], heads first."""
    return _value(tokens, position, STATE, (2, 3, 4), nudge)


def _value(
    tokens: Sequence[int], count: int, what: int, shape: tuple[int, ...], nudge: float
) -> Array:
    seed = [what, count, *tokens[:count]]
    found = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    found.flat[0] += np.float32(nudge)
    return found


class Run:
    """One dump being written.

    Args:
        salt: What the names of all sites, kernels and requests begin with.
    """

    def __init__(self, path: Path, arm: str = "run", salt: str = "") -> None:
        self.salt = salt
        self.builder = DumpBuilder(path, arm=arm)
        self.path = path
        self._tokens: dict[int, tuple[int, ...]] = {}
        layer: dict[str, Any] = {"layer_index": 1}
        self.names = [f"{salt}{n}" for n in ("x:in", "x.k", "x.a", "x.s", "x.m")]
        of = self.names
        site = self.builder.site
        site(of[IN], **layer)
        site(of[KEY], kind=TensorKind.KV_KEY, inputs=[of[IN]], **layer)
        site(
            of[ATTENTION],
            kind=TensorKind.ATTENTION_OUT,
            reach=Reach.PREFIX,
            inputs=[of[IN], of[KEY]],
            **layer,
        )
        kind = TensorKind.RECURRENT_STATE
        site(of[STATE], kind=kind, reach=Reach.STATE, inputs=[of[IN]], **layer)
        site(of[MIX], reach=Reach.STATE, inputs=[of[IN], of[STATE]], **layer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.builder.close()

    def request(self, name: str, tokens: Sequence[int], **known: Any) -> int:
        """Begin a request."""
        index = self.builder.request(f"{self.salt}{name}", tokens, **known)
        self._tokens[index] = tuple(tokens)
        return index

    def replace(self, request: int, start: int, tokens: Sequence[int]) -> None:
        """Other tokens than the drafted ones, from *start* on."""
        kept = (*self._tokens[request][:start], *tokens)
        rows = np.zeros(len(tokens), schema.TOKEN)
        rows["request"], rows["token"] = request, schema.NONE
        rows["position"] = np.arange(start, len(kept))
        rows["chain"] = chain_tokens(CHAIN_START, kept)[start:]
        self.builder.writer.append("tokens", rows)
        self._tokens[request] = kept

    def event(self, kind: EventKind, **known: Any) -> None:
        """Something that happened in the next pass, or before it."""
        if "site" in known:
            known["site"] = self.names[known["site"]]
        self.builder.event(kind, **known)

    def step(
        self,
        request: int,
        start: int,
        stop: int,
        *,
        made: Mapping[int, Array] | None = None,
        read: Mapping[int, Array] | None = None,
        found: Array | None = None,
        left: Array | None = None,
        unread: bool = False,
        attended: float = 0.0,
        kernel: Mapping[str, object] | None = None,
        phase: Phase = Phase.PREFILL,
    ) -> int:
        """One pass; returns its index.

        Args:
            made: Keys by position that are other ones than the tokens give.
            read: Keys by position that are found in the cache instead of the right ones.
            found: The state as read.
            left: The state as left.
            unread: Whether nobody looked at the state that was read.
            attended: By how much the attention's rows are off.
            kernel: Launch facts of the attention.
        """
        tokens, builder = self._tokens[request], self.builder
        span = [(request, start, stop)]
        positions = range(start, stop)
        rows = np.stack([_value(tokens, p + 1, IN, (8,), 0.0) for p in positions])
        builder.observe(self.names[IN], rows, span)
        keys = np.stack([(made or {}).get(p, key(tokens, p)) for p in positions])
        self.elements(builder.observe(self.names[KEY], keys, span), keys.swapaxes(0, 1))
        if start:
            cached = np.stack([(read or {}).get(p, key(tokens, p)) for p in range(start)])
            where = [(request, 0, start)]
            seen = builder.observe(self.names[KEY], cached, where, moment=Moment.IN)
            self.elements(seen, cached.swapaxes(0, 1))
        out = np.stack([_value(tokens, p + 1, ATTENTION, (8,), attended) for p in positions])
        launch = builder.kernel(f"{self.salt}attend", kernel or {})
        builder.observe(self.names[ATTENTION], out, span, kernel=launch)
        if start and not unread:
            self.seen(request, start, state(tokens, start) if found is None else found, Moment.IN)
        self.seen(request, stop, state(tokens, stop) if left is None else left, Moment.OUT)
        mixed = np.stack([_value(tokens, p + 1, MIX, (8,), 0.0) for p in positions])
        builder.observe(self.names[MIX], mixed, span)
        return builder.commit(span, phase=phase)

    def seen(self, request: int, position: int, value: Array, moment: Moment) -> None:
        """A state, in the next pass."""
        where = [(request, position, position + 1)]
        seen = self.builder.observe(
            self.names[STATE], value[None], where, moment=moment, parts=True
        )
        self.elements(seen, value)

    def elements(self, observation: int, parts: Array) -> None:
        """Element digests of an observation, one for each of *parts*."""
        flat = np.ascontiguousarray(parts).reshape(len(parts), -1)
        digests = element_digests(flat.view(np.uint32))
        rows = [(observation, part, int(digest)) for part, digest in enumerate(digests)]
        self.builder.writer.append("elements", np.array(rows, schema.ELEMENT))


def cold(path: Path, *stops: int, salt: str = "", tokens: Sequence[int] = TOKENS) -> Path:
    """The trusted run of the request "r": chunks up to *stops*, nothing reused."""
    with Run(path, "cold", salt) as run:
        request = run.request("r", tokens)
        for start, stop in zip((0, *stops), stops, strict=False):
            run.step(request, start, stop)
    return path


def compare(baseline: Path, candidate: Path) -> Report:
    """The report on two dumps."""
    return compare_dumps(Dump.open(baseline), Dump.open(candidate)).report


def first(baseline: Path, candidate: Path) -> Origin:
    """The first origin."""
    return compare(baseline, candidate).origins[0]
