"""A NumPy engine of two layers with a prefix cache; each fault is one switch.

Token after token, so that healthy bits do not depend on chunks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from layerdiff.vocabulary import Moment, Reach, TensorKind
from layerdiff_hooks import Recorder
from layerdiff_hooks.hunt import Arm, Case, Unsupported
from layerdiff_hooks.requests import Request

Array = np.ndarray[Any, Any]

WIDTH: Final = 8
BLOCK: Final = 8
FILL: Final = tuple(range(3, 23))
PROMPT: Final = (*FILL, 43, 44)

_numbers = np.random.default_rng(5)
TABLE: Final = _numbers.standard_normal((64, WIDTH)).astype(np.float32)
WEIGHTS: Final = _numbers.standard_normal((4, WIDTH, WIDTH)).astype(np.float32) / 3
_calls = itertools.count()
_leak: dict[tuple[int, ...], "Entry"] = {}


@dataclass(slots=True)
class Entry:
    """What the cache holds of one prefix."""

    state: Array
    keys: list[Array]
    writer: Request | None = None


class ToyEngine:
    """One layer with a state, one that sums up keys, which are their own values."""

    def __init__(self, recorder: Recorder, fault: str = "", *, caching: bool = True) -> None:
        self.recorder = recorder
        self.fault = fault
        self.caching = caching
        self.cache: dict[tuple[int, ...], Entry] = _leak if fault == "leak" else {}
        self.poison: str | None = None

    def generate(
        self,
        name: str,
        tokens: Sequence[int],
        *,
        reuse: bool = True,
        chunks: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Reads a prompt, in *chunks* if given; publishes its whole blocks."""
        prompt = tuple(tokens)
        hit = (len(prompt) - 1) // BLOCK * BLOCK
        while hit and not (reuse and prompt[:hit] in self.cache):
            hit -= BLOCK
        entry = self.cache[prompt[:hit]] if hit else Entry(np.zeros(WIDTH, np.float32), [])
        source = None if self.fault == "leak" else entry.writer
        with self.recorder.request(name, prompt, hit=hit, source=source) as request:
            state, keys = self._take(entry, hit)
            for start, stop in chunks or self._chunks(hit, len(prompt)):
                with self.recorder.forward_pass([(request, start, stop)]):
                    state = self._forward(request, prompt[start:stop], start, state, keys)
                if self.caching and not stop % BLOCK:
                    self.cache[prompt[:stop]] = Entry(state, list(keys), request)

    def _chunks(self, hit: int, length: int) -> list[tuple[int, int]]:
        """A pass ends where its state may be published: at the last block below the end."""
        split = max(hit, (length - 1) // BLOCK * BLOCK)
        if self.fault in ("shape", "no-layout") and hit:
            split = (hit + length) // 2
        ends = sorted({hit, split, length})
        return list(itertools.pairwise(ends))

    def _take(self, entry: Entry, hit: int) -> tuple[Array, list[Array]]:
        """What a request begins with; here reuse goes wrong."""
        state, keys = entry.state.copy(), list(entry.keys)
        if hit and self.fault == "zero":
            state[:] = 0
        if hit and self.poison == "layer-0":
            state += 1
        if hit and self.poison == "layer-1":
            keys = [key + 1 for key in keys]
        return state, keys

    def _forward(
        self, request: Request, tokens: Sequence[int], start: int, state: Array, keys: list[Array]
    ) -> Array:
        """One pass; gives the state behind it."""
        see, count, stop = self.recorder, len(tokens), start + len(tokens)
        rows = TABLE[list(tokens)]
        see.observe("embed", rows)
        place: dict[str, Any] = {"request": request, "layer_index": 0, "inputs": ["embed"]}
        see.state("state", state[None], position=start, moment=Moment.IN, **place)
        states = []
        for row in rows:
            state = np.tanh(state * np.float32(0.9) + WEIGHTS[0] @ row)
            states.append(state)
        see.state("state", state[None], position=stop, moment=Moment.OUT, **place)
        out = np.stack(states)
        if self.fault == "shape" and count < BLOCK // 2:
            out *= np.float32(1 + 2**-20)
        if self.fault == "noise":
            out *= np.float32(1 + 2**-20 * next(_calls))
        read = ["embed", "state"]
        kernel = see.kernel("recur", source="toy_engine.py:1")
        see.observe("l0", out, layer_index=0, inputs=read, kernel=kernel, reach=Reach.STATE)
        key: dict[str, Any] = {"kind": TensorKind.KV_KEY, "layer_index": 1, "inputs": ["l0"]}
        if start:
            cached = np.stack(keys)[:, None]
            see.observe("key", cached, moment=Moment.IN, rows=[(request, 0, start)], **key)
        made = [(WEIGHTS[1] * row[:, None]).sum(0) for row in out]
        see.observe("key", np.stack(made)[:, None], **key)
        keys += made
        mixed = np.stack([np.stack(keys[: start + row + 1]).sum(0) for row in range(count)])
        see.observe("l1", mixed, layer_index=1, inputs=["l0", "key"], reach=Reach.PREFIX)
        see.observe("head", mixed * 2, kind=TensorKind.LOGITS, inputs=["l1"])
        return state


class ToyCase(Case):
    """A first turn of 20 tokens, and a second of 22: a hit of 16."""

    title = "a toy"
    engine = "toy"
    can = frozenset({"no-state", "poison", "reference"})
    fault = ""

    def run(self, arm: Arm, recorder: Recorder) -> None:
        """A fresh engine each time."""
        if self.fault == arm.name == "off":
            raise Unsupported("this toy always caches")
        engine = ToyEngine(recorder, self.fault, caching=arm.caching)
        engine.poison = arm.poison
        reuse = (arm.reuse and arm.restore) or self.fault in ("leak", "always-fills")
        if self.fault == "warm-noise" and arm.fill:
            engine.fault = "noise"
        if arm.fill or self.fault == "always-fills":
            engine.generate("fill", FILL, reuse=reuse)
        if self.fault == f"raise-{arm.name}":
            print("on its way to stdout")
            engine.generate("r0", FILL)
            raise ValueError("the pool is empty")
        chunks = None if self.fault == "no-layout" else (arm.layout or {}).get("r1")
        engine.generate("r1", PROMPT, reuse=reuse, chunks=chunks)


def case_with(fault: str) -> ToyCase:
    """The case with one switch set."""
    case = ToyCase()
    case.name, case.fault = f"toy-{fault or 'healthy'}", fault
    return case
