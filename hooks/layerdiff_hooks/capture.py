"""The recorder of one model: its request blocks, its passes, and the hooks between them."""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from layerdiff.errors import CaptureError
from layerdiff.vocabulary import EventKind
from layerdiff_hooks.caches.recognition import Recognition
from layerdiff_hooks.closing import close_group
from layerdiff_hooks.ledger import Ledger
from layerdiff_hooks.passes import Passes, failed_now
from layerdiff_hooks.requests import Group, Scope, strip_pads
from layerdiff_hooks.routing import Router
from layerdiff_hooks.selection import Selection, SiteBook
from layerdiff_hooks.session import Session
from layerdiff_hooks.sites import ModelMap
from layerdiff_hooks.taps import Taps

TokenIds: TypeAlias = Sequence[int] | Sequence[Sequence[int]] | torch.Tensor
"""Token ids of one request, or one list per batch row."""


class ModelRecorder:
    """Records the forwards of one model; `record` makes it.

    Args:
        sites: The model's modules.
        ledger: The dump.
        selection: Which sites are recorded.
    """

    def __init__(self, sites: ModelMap, ledger: Ledger, selection: Selection) -> None:
        self._sites = sites
        attention = getattr(getattr(sites.root, "config", None), "_attn_implementation", None)
        self._session = Session(ledger, SiteBook(ledger, selection), attention)
        recognition = Recognition(ledger.key)
        self._router = Router(ledger, recognition, self._finish)
        self._passes = Passes(self._session, self._router, recognition, sites)
        self._taps = Taps(self._session, sites, selection.extra, self._router)
        self._stack = ExitStack()
        self._paused = False
        self._closed = False

    # For users

    @contextmanager
    def request(
        self, request_id: str | Sequence[str], token_ids: TokenIds | None = None
    ) -> Iterator[None]:
        """Everything the model does inside belongs to this request.

        Args:
            request_id: Its name; a batch of several rows under one name becomes ``name/0`` and
                so on, a list names each row.
            token_ids: All token ids that the user gives, the part in a reused cache included;
                one list per row for a batch. A tensor with pads needs the mask that the model
                gets.

        Raises:
            CaptureError: Another request is open.
        """
        router = self._router
        if router.block is not None:
            raise CaptureError("a request is open already; requests do not nest")
        names = [request_id] if isinstance(request_id, str) else list(request_id)
        scope = Scope(names, _token_lists(token_ids), explicit=True)
        if scope.tokens:
            scope.columns = max(map(len, scope.tokens))
        router.block = scope
        try:
            yield
        finally:
            router.block = None
            self._leave(scope)

    def pause(self) -> None:
        """Record nothing until `resume`; hooks then cost about a microsecond."""
        self._paused = True

    def resume(self) -> None:
        """Record again from the next forward on."""
        self._paused = False

    def warn(self, text: str) -> None:
        """Leave a remark in the dump."""
        self._session.guard(self._session.ledger.event, EventKind.WARNING, text=text)

    @property
    def passes(self) -> int:
        """Passes written so far."""
        return self._session.ledger.pass_index

    @property
    def incomplete(self) -> bool:
        """Whether a fault ended the recording before its time."""
        return self._session.off and not self._closed

    # For `record`

    def attach(self) -> None:
        """Put the hooks on the model."""
        modules = {id(m): m for m in (self._sites.root, self._sites.stack)}
        for module in modules.values():
            begin = module.register_forward_pre_hook(self._begin, with_kwargs=True)
            self._stack.callback(begin.remove)
        self._taps.attach(self._stack)
        for module in modules.values():
            end = module.register_forward_hook(self._end, with_kwargs=True, always_call=True)
            self._stack.callback(end.remove)
        self._wrap_generate(self._sites.root)

    def close(self) -> None:
        """Take the hooks off, record what the caches hold, and close the dump."""
        self._stack.close()
        if self._closed or self._session.foreign_process:
            return
        session = self._session
        if session.active is not None:
            session.guard(self._passes.end, failed=True)
        self._taps.cache_tap.detach()
        if not session.off and self._router.current is not None:
            session.guard(self._finish, self._router.current)
        self._closed, faulty = True, session.off
        session.off = True
        try:
            session.ledger.writer.close()
        except CaptureError as error:
            # The run has ended well; that its record did not must not undo it.
            if not faulty:
                warnings.warn(f"layerdiff: {error}", RuntimeWarning, stacklevel=2)

    def _finish(self, group: Group) -> None:
        close_group(self._session, group)
        if self._router.current is group:
            self._router.current = None

    def _leave(self, scope: Scope) -> None:
        if scope.group is not None and not self._session.off:
            self._session.guard(self._finish, scope.group)

    # Hooks

    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        session = self._session
        if session.off or self._paused or torch.compiler.is_compiling():
            return
        if session.foreign_process:
            session.off = True
            return
        active = session.active
        if active is not None:
            if active.thread != threading.get_ident():
                session.guard(session.gap, "a second forward ran while one was recorded")
                return
            if active.owner is not module:
                return
            # An interrupt ended the pass without its hook being called.
            self._taps.cache_tap.detach()
            session.guard(self._passes.end, failed=True)
        if _captures_graph():
            session.guard(session.gap, "a CUDA graph was captured: its replays run no hooks")
            return
        cache = session.guard(self._passes.begin, module, args, kwargs)
        if cache is not None and session.active is not None and not session.active.group.lost:
            session.guard(self._taps.cache_tap.attach, session.active, cache)

    def _end(self, module: nn.Module, args: Any, *rest: Any) -> None:
        session = self._session
        active = session.active
        if active is None:
            if self._taps.cache_tap.attached and session.off:
                self._taps.cache_tap.detach()
            return
        if active.owner is not module or active.thread != threading.get_ident():
            return
        self._taps.cache_tap.detach()
        session.guard(self._passes.end, failed=failed_now(active))

    def _wrap_generate(self, model: nn.Module) -> None:
        """Let a new ``generate`` begin a request, until detached."""
        original: Callable[..., Any] | None = getattr(model, "generate", None)
        if not callable(original):
            return
        replaced = vars(model).get("generate")

        @wraps(original)
        def generate(*args: Any, **kwargs: Any) -> Any:
            session, router = self._session, self._router
            if session.off or self._paused or router.generating is not None:
                return original(*args, **kwargs)
            scope = session.guard(_prompt, args, kwargs) or Scope(None, None)
            router.generating = scope
            session.guard(_explain, router.block, scope)
            try:
                return original(*args, **kwargs)
            finally:
                router.generating = None
                self._leave(scope)

        vars(model)["generate"] = generate

        def restore() -> None:
            if replaced is None:
                vars(model).pop("generate", None)
            else:
                vars(model)["generate"] = replaced

        self._stack.callback(restore)


def _captures_graph() -> bool:
    """Whether a CUDA graph is being captured; asking must not start CUDA."""
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return started and torch.cuda.is_current_stream_capturing()


def _prompt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Scope:
    """What a ``generate`` call says about its prompt."""
    ids = args[0] if args else kwargs.get("inputs", kwargs.get("input_ids"))
    embeds, mask = kwargs.get("inputs_embeds"), kwargs.get("attention_mask")
    scope = Scope(None, None)
    if isinstance(mask, torch.Tensor) and mask.ndim == 2:
        scope.mask = np.asarray(mask.detach().ne(0).cpu().numpy(), bool)
        scope.columns = mask.shape[1]
    if isinstance(ids, torch.Tensor) and ids.ndim == 2 and not ids.is_floating_point():
        scope.columns = ids.shape[1]
        if scope.mask is not None and scope.mask.shape != ids.shape:
            scope.mask = None
        scope.tokens = strip_pads(ids.detach().cpu().tolist(), scope.mask)
    elif isinstance(embeds, torch.Tensor) and scope.columns is None:
        scope.columns = embeds.shape[1]
    return scope


def _explain(block: Scope | None, prompt: Scope) -> None:
    """An open ``request`` block learns from ``generate`` what its user did not say."""
    if block is None:
        return
    block.columns = prompt.columns
    block.mask = prompt.mask
    if block.tokens is None and block.group is None:
        block.tokens = prompt.tokens
    elif block.group is not None and prompt.tokens:
        batch = block.group.table.batch
        for request in block.group.requests:
            request.expected = prompt.ids(request.row, batch)
            request.given = max(request.given, len(request.expected or ()))


def _token_lists(token_ids: TokenIds | None) -> list[list[int]] | None:
    """Token ids as one list per row."""
    if token_ids is None:
        return None
    plain: Any = token_ids.tolist() if isinstance(token_ids, torch.Tensor) else list(token_ids)
    if plain and isinstance(plain[0], list | tuple | torch.Tensor):
        return [[int(token) for token in row] for row in plain]
    return [[int(token) for token in plain]]
