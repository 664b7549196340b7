"""Decides to which requests a pass belongs: continued ones, new ones, or a taken-over cache."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from layerdiff.digest import CHAIN_START, chain_tokens
from layerdiff.format import schema
from layerdiff.vocabulary import EventKind
from layerdiff_hooks.caches import kv
from layerdiff_hooks.caches.recognition import Owner, Recognition
from layerdiff_hooks.caches.state import has_state, states_of
from layerdiff_hooks.ledger import Ledger
from layerdiff_hooks.positions import ColumnTable, Mask
from layerdiff_hooks.requests import Group, Request, Scope


@dataclass(frozen=True, slots=True)
class Call:
    """What one forward of the model was given."""

    batch: int
    width: int
    """Columns of the input."""
    cache: Any
    mask: Mask | None
    """[batch, columns], of the new columns or of all; None when the model got none."""
    tokens: list[list[int]] | None = None
    """Ids [batch, width], pads included; None when the model got embeddings."""


class Router:
    """Keeps the running requests and recognises where new ones begin.

    Args:
        ledger: Where requests and events are written.
        recognition: What earlier caches held.
        finish: Called with requests that end because others begin.
    """

    def __init__(
        self, ledger: Ledger, recognition: Recognition, finish: Callable[[Group], None]
    ) -> None:
        self._ledger = ledger
        self._recognition = recognition
        self._finish = finish
        self._homes: WeakKeyDictionary[Any, Group] = WeakKeyDictionary()
        self._named = 0
        self.current: Group | None = None
        self.block: Scope | None = None
        """The open ``request`` block."""
        self.generating: Scope | None = None
        """The running ``generate``."""

    @property
    def scope(self) -> Scope | None:
        """What bounds the requests of the next pass, if anything does."""
        return self.block or self.generating

    def route(self, call: Call) -> Group:
        """The requests of a pass; `Group.lost` says that its rows cannot be told apart."""
        scope = self.scope
        group = scope.group if scope else self.current
        if group is None or (scope is None and not self._same_cache(group, call)):
            return self._begin(call, scope)
        if group.table.batch != call.batch:
            self._lose(group, f"the batch changed from {group.table.batch} to {call.batch} rows")
        if not group.lost:
            self._continue(group, call)
        return group

    def own(self, group: Group, cache: Any) -> None:
        """*cache* is the one that *group* fills."""
        group.cache = cache
        try:
            self._homes[cache] = group
        except TypeError:
            return  # A cache that cannot be referenced weakly is recognised by its bits.

    def _same_cache(self, group: Group, call: Call) -> bool:
        held = call.cache is not None and call.cache is group.cache
        filled = held and (has_state(call.cache) or bool(kv.kv_length(call.cache)))
        return filled and group.table.batch == call.batch

    def _lose(self, group: Group, why: str) -> None:
        if not group.lost:
            names = ", ".join(request.name for request in group.requests)
            self._ledger.event(EventKind.GAP, text=f"{why}: what follows of {names} is not seen")
        group.lost = True

    # New requests

    def _begin(self, call: Call, scope: Scope | None) -> Group:
        if self.current is not None:
            self._finish(self.current)
        owners: list[Owner | None] = [None] * call.batch
        columns: int | None = 0
        if call.cache is not None and (has_state(call.cache) or kv.kv_length(call.cache)):
            owners = self._owners(call)
            columns = self._columns(call, scope, owners)
        table = ColumnTable(call.batch)
        if columns:
            table.extend(self._prefix(call, scope, owners, columns))
        group = Group([], table)
        for row in range(call.batch):
            hit = int(table.lengths[row]) if columns is not None else schema.NONE
            group.requests.append(self._request(group, row, scope, owners[row], hit))
        if columns is None:
            self._lose(group, "how many tokens the state has consumed is not known")
        self.current = group
        if scope is not None:
            scope.group = group
        if call.cache is not None:
            self.own(group, call.cache)
        return group

    def _request(
        self, group: Group, row: int, scope: Scope | None, owner: Owner | None, hit: int
    ) -> Request:
        batch = group.table.batch
        name = scope.name(row, batch) if scope else None
        if name is None:
            name, self._named = f"r{self._named}", self._named + 1
        source = owner[0].requests[owner[1]] if owner else None
        explicit = scope is not None and scope.explicit
        index = self._ledger.request(
            name,
            batch_row=row,
            explicit=explicit,
            source=source.index if source else schema.NONE,
            hit=hit,
        )
        request = Request(index, row, name, scope.ids(row, batch) if scope else None)
        request.given = len(request.expected) if request.expected else max(hit, 0)
        if source:
            request.written = list(source.written)
            request.cut(max(hit, 0))
        self._ledger.event(EventKind.LOOKUP, request=index, value=hit)
        self._adopt(request, source, max(hit, 0))
        return request

    def _adopt(self, request: Request, source: Request | None, hit: int) -> None:
        """The tokens behind a hit: as the user gave them, else as the source had them."""
        theirs = source.chain[:hit] if source and source.chain else []
        given = request.expected[:hit] if request.expected else []
        if hit == 0:
            return
        if len(given) == hit:
            chain = chain_tokens(CHAIN_START, given).tolist()
            if len(theirs) == hit and theirs != chain:
                odd = next(i for i in range(hit) if theirs[i] != chain[i])
                text = (
                    f"request {request.name}: the cache holds another token {odd} than was given"
                )
                self._ledger.event(EventKind.WARNING, request=request.index, value=odd, text=text)
            request.adopt(self._ledger, given, chain)
        elif len(theirs) == hit:
            request.adopt(self._ledger, [], theirs)
        else:
            text = f"nothing tells which {hit} tokens the cache of request {request.name} holds"
            self._ledger.event(EventKind.GAP, request=request.index, text=text)
            request.chain = None

    def _owners(self, call: Call) -> list[Owner | None]:
        """Who filled the cache: the object itself is known, or its bits are."""
        owners = self._recognition.owners(call.cache, call.batch)
        home = self._home(call.cache)
        if home is None or home.table.batch != call.batch or home.lost:
            return owners
        held = home.table.lengths
        return [
            owner
            if owner and owner[0] is home and owner[1] != row
            else (home, row, int(held[row]))
            for row, owner in enumerate(owners)
        ]

    def _home(self, cache: Any) -> Group | None:
        try:
            return self._homes.get(cache)
        except TypeError:
            return None

    def _columns(self, call: Call, scope: Scope | None, owners: list[Owner | None]) -> int | None:
        """Columns in the cache; a cache of states alone does not say."""
        columns = kv.kv_length(call.cache)
        if columns is not None:
            return columns
        home = self._home(call.cache)
        if home is not None and not home.lost:
            return home.table.width
        known = [o[0].table.columns_for(o[1], o[2]) for o in owners if o]
        if known:
            return max(known)
        if call.mask is not None and call.mask.shape[1] > call.width:
            return int(call.mask.shape[1]) - call.width
        return _place_in_prompt(call, scope)

    def _prefix(
        self, call: Call, scope: Scope | None, owners: list[Owner | None], columns: int
    ) -> Mask:
        """Which of the cache's columns hold tokens, bool [batch, columns]."""
        if call.mask is not None and call.mask.shape[1] >= columns + call.width:
            return call.mask[:, :columns]
        prompt = prompt_mask(scope, call.batch)
        if prompt is not None and prompt.shape[1] >= columns:
            return prompt[:, :columns]
        real = np.ones((call.batch, columns), bool)
        for row, owner in enumerate(owners):
            if owner is not None:
                real[row] = owner[0].table.real(0, columns)[owner[1]]
        return real

    # Running requests

    def _continue(self, group: Group, call: Call) -> None:
        columns = self._held(group, call)
        if call.cache is not group.cache:
            group.memory.forget()
            group.started = False
            if group.cache is not None:
                # It stays behind while the request goes on: its length is no longer ours.
                self._homes.pop(group.cache, None)
            group.cache = None
            if call.cache is not None:
                self.own(group, call.cache)
        elif call.batch > 1 and group.started and self._reordered(group):
            self._lose(group, "the batch rows were reordered")
            return
        width = group.table.width
        if columns < width:
            group.table.truncate(columns)
            for request, length in zip(group.requests, group.table.lengths, strict=True):
                request.cut(int(length))
                # A pass without a cache starts over; nothing was cut.
                if call.cache is not None:
                    self._ledger.event(
                        EventKind.TRUNCATE, request=request.index, value=int(length)
                    )
        elif columns > width:
            self._catch_up(group, call, columns)

    def _held(self, group: Group, call: Call) -> int:
        cache, width = call.cache, group.table.width
        if cache is None:
            return 0
        columns = kv.kv_length(cache)
        if columns is not None:
            return columns
        if not has_state(cache):
            return 0
        if cache is group.cache:
            return width
        owner = self._recognition.owners(cache, call.batch)[0]
        if owner is not None and owner[0] is group:
            return group.table.columns_for(owner[1], owner[2])
        text = "a cache of states was exchanged, and its length is not known"
        self._ledger.event(EventKind.GAP, text=text)
        return width

    def _reordered(self, group: Group) -> bool:
        """Whether rows hold what other rows of the batch had; looked at only after a change."""
        if all(
            group.memory.unchanged(index, "key", layer.keys)
            if kv.is_kv(layer)
            else all(group.memory.unchanged(index, s.port, s.tensor) for s in states_of(layer))
            for index, layer in enumerate(group.cache.layers)
        ):
            return False
        for row, owner in enumerate(self._recognition.owners(group.cache, group.table.batch)):
            if owner is None or owner[0] is not group or owner[1] == row:
                continue
            mine, other = group.requests[row].chain, group.requests[owner[1]].chain
            if mine is None or mine != other:
                return True
        return False

    def _catch_up(self, group: Group, call: Call, columns: int) -> None:
        """The cache grew while nothing was recorded."""
        width = group.table.width
        real = np.ones((call.batch, columns - width), bool)
        if call.mask is not None and call.mask.shape[1] >= columns + call.width:
            real = call.mask[:, width:columns]
        group.table.extend(real)
        group.started = False
        group.memory.forget()
        text = f"{columns - width} columns were added to the cache unseen"
        self._ledger.event(EventKind.GAP, request=group.requests[0].index, text=text)


def _place_in_prompt(call: Call, scope: Scope | None) -> int | None:
    """Where the forwarded tokens lie in the prompt, if at one place only."""
    prompt = scope.ids(0, call.batch) if scope else None
    padded = call.mask is not None and not call.mask.all()
    if prompt is None or call.tokens is None or padded:
        return None
    width = call.width
    found = [
        start
        for start in range(len(prompt) - width + 1)
        if prompt[start : start + width] == call.tokens[0]
    ]
    return found[0] if len(found) == 1 else None


def prompt_mask(scope: Scope | None, batch: int) -> Mask | None:
    """The mask over a prompt, for the rows of the batch that it became."""
    if scope is None or scope.mask is None or batch % scope.mask.shape[0]:
        return None
    mask: Mask = np.repeat(scope.mask, batch // scope.mask.shape[0], axis=0)
    return mask
