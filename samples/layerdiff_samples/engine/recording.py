"""Everything the engine tells a recorder; without one, all of it does nothing."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind
from layerdiff_hooks.recorder import Recorder
from layerdiff_samples.engine.request import Chunk, Request, State
from layerdiff_samples.engine.state_sites import state_site
from layerdiff_samples.engine.writer import Writer

NO_KERNEL = -1
"""What stands for a kernel that is not told."""
NONE = -1


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in the model observations are made: sites are named ``<prefix>:<port>``."""

    prefix: str
    layer_index: int | None = None
    layer_kind: str = ""
    role: Role = Role.TARGET

    def name(self, port: str) -> str:
        """The site of a port."""
        return f"{self.prefix}:{port}"

    def known(self) -> dict[str, Any]:
        """What every observation here says of its layer."""
        return {
            "layer_index": self.layer_index,
            "layer_kind": self.layer_kind,
            "role": self.role,
        }


class Recording:
    """The engine's side of a recorder.

    Args:
        recorder: None to record nothing.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._handles: dict[str, Any] = {}
        self._sites: set[str] = set()
        self._early: list[Callable[[], None]] = []
        """Observations of sites whose inputs nobody has seen yet."""
        self._passes = 0
        self.chunks: Sequence[Chunk] = ()
        """Those of the running pass."""

    @property
    def on(self) -> bool:
        """Whether somebody listens."""
        return self._recorder is not None

    @property
    def recorder(self) -> Recorder | None:
        """Who listens."""
        return self._recorder

    def go_on(self, earlier: "Recording") -> None:
        """Follows on what another engine told the same recorder."""
        self._handles |= earlier._handles
        self._sites |= earlier._sites
        self._passes += earlier._passes

    # Requests

    def begin(self, request: Request, writer: Writer | None) -> None:
        """A request is admitted; *writer* filled the cache that it goes on from."""
        if self._recorder is None:
            return
        source = None if writer is None else self._handles.get(writer.request)
        self._handles[request.name] = self._recorder.begin(
            request.name, list(request.prompt), hit=request.hit, source=source
        )

    def end(self, request: Request) -> None:
        """All tokens of a request are there."""
        if self._recorder is not None:
            self._recorder.end(self._handles[request.name])

    def drafted(self, request: Request, tokens: Sequence[int], start: int) -> None:
        """Tokens that may be rejected go through the model at *start* and on."""
        if self._recorder is not None and tokens:
            self._recorder.drafted(self._handles[request.name], list(tokens), start=start)

    def generated(self, request: Request) -> None:
        """The last token of a request is new; drafts before it were told already."""
        if self._recorder is not None:
            start = len(request.tokens) - 1
            self._recorder.generated(
                self._handles[request.name], request.tokens[start:], start=start
            )

    def writer(self, request: Request) -> Writer:
        """The request, in the running pass."""
        return Writer(request.name, self._passes)

    # Passes

    @contextmanager
    def forward_pass(self, chunks: Sequence[Chunk], phase: Phase) -> Iterator[None]:
        """One call of the model over *chunks*."""
        self.chunks = chunks
        if self._recorder is None:
            yield
        else:
            with self._recorder.forward_pass(self._spans(chunks), phase=phase):
                yield
                for observe in self._early:
                    observe()
                self._early.clear()
        self.chunks = ()
        self._passes += 1

    def rope(self, chunk: Chunk, first: int) -> None:
        """The rotary positions of a chunk."""
        if self._recorder is not None:
            handle = self._handles[chunk.request.name]
            self._recorder.rope(handle, chunk.start, chunk.stop, first)

    def pads(self, chunk: Chunk, before: int, after: int) -> None:
        """Empty slots that went through with a chunk."""
        if self._recorder is not None and (before or after):
            handle = self._handles[chunk.request.name]
            self._recorder.pads(handle, before=before, after=after)

    # Values

    def rows(
        self,
        scope: Scope,
        port: str,
        tensor: Tensor,
        *,
        kind: TensorKind = TensorKind.HIDDEN,
        inputs: Sequence[str] = (),
        reach: Reach = Reach.ROW,
        moment: Moment = Moment.COMPUTED,
        spans: Sequence[tuple[Request, int, int]] | None = None,
        kernel: int = NO_KERNEL,
        glue: bool = False,
    ) -> None:
        """Rows [n, ...] of the running pass, or those of *spans*.

        Args:
            glue: Whether the site only hands on or adds up its inputs.
        """
        if self._recorder is None or not len(tensor):
            return
        if kernel != NO_KERNEL:
            extra: dict[str, Any] = {"kernel": kernel}
        else:
            extra = {}
        self._sites.add(scope.name(port))
        self._recorder.observe(
            scope.name(port),
            tensor,
            kind=kind,
            moment=moment,
            reach=reach,
            inputs=list(inputs),
            rows=None if spans is None else self._named(spans),
            glue=glue,
            **scope.known(),
            **extra,
        )

    def states(
        self,
        request: Request,
        position: int,
        state: State,
        moment: Moment,
        kernel: int = NO_KERNEL,
    ) -> None:
        """States that have consumed *position* tokens, by name."""
        if self._recorder is None:
            return
        for name, value in state.items():
            site = state_site(name)
            if name in self._sites or moment is not Moment.RESTORED:
                self._state(request, position, name, value, moment, kernel)
            elif site is not None:
                observe = partial(
                    self._state, request, position, name, value.clone(), moment, kernel
                )
                self._early.append(observe)

    def left(self, chunk: Chunk, name: str, kernel: int = NO_KERNEL) -> None:
        """What a layer left of one state, after every row where that is known."""
        for position, states in chunk.after.items():
            if name in states:
                state = {name: states[name]}
                self.states(chunk.request, position, state, Moment.OUT, kernel)

    def _state(
        self,
        request: Request,
        position: int,
        name: str,
        value: Tensor,
        moment: Moment,
        kernel: int,
    ) -> None:
        site = state_site(name)
        if site is None or self._recorder is None:
            return
        self._sites.add(name)
        extra: dict[str, Any] = {"kernel": kernel} if kernel != NO_KERNEL else {}
        self._recorder.state(
            name,
            value,
            request=self._handles[request.name],
            position=position,
            moment=moment,
            kind=site.kind,
            parts_axis=0,
            layer_index=site.layer_index,
            layer_kind=site.layer_kind,
            inputs=list(site.inputs),
            **extra,
        )

    # Facts

    def kernel(self, name: str, function: Callable[..., object], **facts: object) -> int:
        """A kernel with its launch facts; the source is where *function* is defined."""
        if self._recorder is None:
            return NO_KERNEL
        code = getattr(function, "__code__", None)
        source = (
            "" if code is None else f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"
        )
        return int(self._recorder.kernel(name, source=source, **facts))

    def event(
        self,
        kind: EventKind,
        *,
        request: Request | None = None,
        writer: Writer | None = None,
        start: int = NONE,
        stop: int = NONE,
        value: int = NONE,
        place: int = NONE,
        generation: int = NONE,
        site: str = "",
        text: str = "",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """Something happened to a cache or a request."""
        if self._recorder is None:
            return
        source = None if writer is None else self._handles.get(writer.request)
        self._recorder.event(
            kind,
            request=None if request is None else self._handles.get(request.name),
            source=source,
            source_pass=NONE if source is None or writer is None else writer.pass_index,
            start=start,
            stop=stop,
            value=value,
            place=place,
            generation=generation,
            site=site,
            text=text,
            facts=None if facts is None else dict(facts),
        )

    def _spans(self, chunks: Sequence[Chunk]) -> list[tuple[Any, int, int]]:
        return self._named([(chunk.request, chunk.start, chunk.stop) for chunk in chunks])

    def _named(self, spans: Sequence[tuple[Request, int, int]]) -> list[tuple[Any, int, int]]:
        return [(self._handles[request.name], start, stop) for request, start, stop in spans]


def digest_memory(tensor: Tensor) -> str:
    """Hex digest of some memory, such as the slack of a tile."""
    content = tensor.detach().contiguous().numpy().tobytes()
    return hashlib.blake2b(content, digest_size=8).hexdigest()
