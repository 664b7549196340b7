"""One forward of the model: where its rows belong when it begins, what it leaves when it ends."""

import sys
import threading
from typing import Any

import numpy as np
import torch
from torch import nn

from layerdiff.format import schema
from layerdiff.vocabulary import EventKind, Phase
from layerdiff_hooks.arguments import Given, find_cache, read_arguments
from layerdiff_hooks.caches import kv
from layerdiff_hooks.caches.recognition import Recognition
from layerdiff_hooks.caches.state import has_state, states_of
from layerdiff_hooks.positions import Mask, Rows, pads_of, rope_of, rows_of, token_mask
from layerdiff_hooks.requests import Request, Scope, strip_pads
from layerdiff_hooks.routing import Call, Router, prompt_mask
from layerdiff_hooks.session import PassState, Session
from layerdiff_hooks.sites import ModelMap


class Passes:
    """Begins and ends passes.

    Args:
        session: The recording.
        router: Which requests a pass belongs to.
        recognition: Learns what caches hold at the end of each pass.
        sites: The model's modules.
    """

    def __init__(
        self, session: Session, router: Router, recognition: Recognition, sites: ModelMap
    ) -> None:
        self._session = session
        self._router = router
        self._recognition = recognition
        self._layers = {layer.index: layer.name for layer in sites.layers}

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Start a pass; returns the cache it was given."""
        session = self._session
        given = read_arguments(module, args, kwargs)
        if given is None:
            session.gap("a forward had no rows of tokens for input")
            return None
        batch, width = given.shape
        cache = find_cache(args, kwargs)
        mask = token_mask(given.named.get("attention_mask"), batch)
        ids = None if given.ids is None else given.ids.detach().cpu().tolist()
        group = self._router.route(Call(batch, width, cache, mask, ids))
        scope = self._router.scope
        first = group.table.width
        before = [int(n) for n in group.table.lengths]
        if not group.lost:
            real = _new_columns(mask, scope, batch, first, width)
            group.table.extend(real)
        rows = rows_of(group.table, group.indices, first, first + width)
        ledger = session.ledger
        session.active = active = PassState(
            owner=module,
            thread=threading.get_ident(),
            error=sys.exc_info()[1],
            group=group,
            rows=rows,
            batch=batch,
            width=width,
            first_column=first,
            rowset=schema.NO_TEXT if group.lost else ledger.rowset(rows.spans),
            phase=Phase.PREFILL,
            before=before,
            tail_logits=not isinstance(given.named.get("logits_to_keep"), torch.Tensor),
        )
        if group.lost:
            return cache
        self._tell_reads(active, cache)
        self._take_tokens(active, given, ids, scope)
        ledger.append("pads", pads_of(rows.real, group.indices, ledger.pass_index))
        if given.named.get("position_ids") is not None:
            active.rope_known = True
            position_ids = given.named["position_ids"]
            ledger.append("rope", rope_of(position_ids, rows, width, ledger.pass_index))
        return cache

    def _tell_reads(self, active: PassState, cache: Any) -> None:
        """Events for what the pass finds in its cache."""
        if cache is None:
            return
        group, ledger = active.group, self._session.ledger
        keys, states = any(map(kv.is_kv, cache.layers)), has_state(cache)
        for request, length in zip(group.requests, active.before, strict=True):
            if not length:
                continue
            written = request.written
            if group.started and written and written[-1][1] == length:
                # Own rows: later passes name the last writer only, or a pass would cost its past.
                parts = [(0, length, *written[-1][2:])]
            else:
                parts = _covering(request.written, length)
            if keys:
                for start, stop, source, wrote in parts:
                    ledger.event(
                        EventKind.KV_READ,
                        request=request.index,
                        span=(start, stop),
                        source=(source, wrote),
                    )
            if states:
                ledger.event(
                    EventKind.STATE_READ,
                    request=request.index,
                    span=(length, length + 1),
                    source=parts[-1][2:],
                )

    def _take_tokens(
        self, active: PassState, given: Given, ids: list[list[int]] | None, scope: Scope | None
    ) -> None:
        """Extends each request's tokens, and tells prompt from output."""
        group, rows, ledger = active.group, active.rows, self._session.ledger
        tokens = _tokens(given, ids, rows, group.requests, self._session)
        prompt = scope.columns if scope else None
        decode = active.width == 1
        for request, (_, start, stop) in zip(group.requests, rows.spans, strict=True):
            if request.expected is not None:
                pass
            elif prompt is not None:
                if active.first_column + active.width <= prompt:
                    request.given = max(request.given, stop)
            elif active.width > 1 or not group.passes:
                request.given = max(request.given, stop)
            decode = decode and start >= request.given
            if stop > start:
                request.forward(ledger, start, None if tokens is None else tokens[request.row])
        if decode:
            active.phase = Phase.DECODE

    def end(self, *, failed: bool) -> None:
        """Finish the running pass and write it."""
        session, active = self._session, self._session.active
        if active is None:
            return
        group, ledger = active.group, session.ledger
        if not group.lost:
            self._tell_writes(active)
            if failed:
                group.memory.forget()
            else:
                self._remember(active)
                self._tell_unseen(active)
            group.started = not failed
        group.passes += 1
        ledger.commit(
            phase=active.phase,
            flags=schema.PASS_FAILED if failed else 0,
            batch=active.batch,
            width=active.width,
            rowset=active.rowset,
        )
        session.active = None

    def _tell_writes(self, active: PassState) -> None:
        ledger = self._session.ledger
        rows = zip(active.group.requests, active.rows.spans, strict=True)
        for request, (_, start, stop) in rows:
            if stop == start:
                continue
            request.wrote(start, stop, ledger.pass_index)
            if active.tails:
                ledger.event(EventKind.KV_WRITE, request=request.index, span=(start, stop))
            if active.states:
                ledger.event(EventKind.STATE_WRITE, request=request.index, span=(stop, stop + 1))

    def _remember(self, active: PassState) -> None:
        group, recognition = active.group, self._recognition
        if group.cache is None:
            return
        chosen = recognition.chosen(group.cache)
        for index, port, digests in active.tails:
            if index in chosen:
                recognition.remember_rows(group, index, port, digests)
        for index, port, parts in active.states:
            if index in chosen:
                recognition.remember_state(group, index, port, parts)

    def _tell_unseen(self, active: PassState) -> None:
        """Gaps for layers that ran no hook and for cached values that no hook saw."""
        session = self._session
        for index, name in self._layers.items():
            if index not in active.layers:
                session.gap(f"{name} was not seen to run: skipped, or compiled")
        cache = active.group.cache
        for index, layer in enumerate(cache.layers if cache is not None else ()):
            if index in active.cache_layers:
                continue
            if kv.is_kv(layer) or any(True for _ in states_of(layer)):
                session.gap(f"cache layer {index} holds values that no module was seen to write")


def failed_now(active: PassState) -> bool:
    """Whether the pass is being left by an error of its own."""
    error = sys.exc_info()[1]
    return error is not None and error is not active.error


def _new_columns(
    mask: Mask | None, scope: Scope | None, batch: int, first: int, width: int
) -> Mask:
    """Which of the pass's columns hold tokens, bool [batch, width]."""
    if mask is not None and mask.shape[1] >= first + width:
        return mask[:, first : first + width]
    if mask is not None and mask.shape[1] == width:
        return mask
    prompt = prompt_mask(scope, batch)
    if prompt is not None and prompt.shape[1] >= first + width:
        return prompt[:, first : first + width]
    return np.ones((batch, width), bool)


def _tokens(
    given: Given,
    ids: list[list[int]] | None,
    rows: Rows,
    requests: list[Request],
    session: Session,
) -> list[list[int]] | None:
    """The token ids of each batch row's real columns.

    Where the model was given embeddings they are the ids that the user named, and else the
    embeddings stand for themselves.
    """
    if ids is None:
        chunks = [(start, stop) for _, start, stop in rows.spans]
        named = [
            (request.expected or [])[start:stop]
            for request, (start, stop) in zip(requests, chunks, strict=True)
        ]
        if [len(ids) for ids in named] == [stop - start for start, stop in chunks]:
            return named
    if ids is None and given.embeds is not None:
        flat = session.digest(given.embeds, grid=True).digests
        ids = flat.view(np.int64).reshape(given.shape).tolist()
    return ids if ids is None else strip_pads(ids, rows.real)


def _covering(
    written: list[tuple[int, int, int, int]], length: int
) -> list[tuple[int, int, int, int]]:
    """The writers of positions [0, length), with unknown ones in between."""
    parts: list[tuple[int, int, int, int]] = []
    reached = 0
    for start, stop, request, wrote in written:
        low, high = max(start, reached), min(stop, length)
        if low >= high:
            continue
        if low > reached:
            parts.append((reached, low, schema.NONE, schema.NONE))
        parts.append((low, high, request, wrote))
        reached = high
    if reached < length:
        parts.append((reached, length, schema.NONE, schema.NONE))
    return parts
