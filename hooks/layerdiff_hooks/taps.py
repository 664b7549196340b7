"""Forward hooks: one small function for each place in a model where something is seen."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import nn

from layerdiff.format.schema import NO_TEXT
from layerdiff.vocabulary import Moment, Reach, TensorKind
from layerdiff_hooks.arguments import Arguments, Keywords, Visit, find_cache
from layerdiff_hooks.cache_taps import CacheTap, declare_kv, observe_states, state_site
from layerdiff_hooks.ledger import Site
from layerdiff_hooks.positions import rope_of
from layerdiff_hooks.routing import Router
from layerdiff_hooks.session import LayerTrace, PassState, Session
from layerdiff_hooks.sites import Layer, ModelMap, Part


class Taps:
    """The hooks of one model.

    Args:
        session: The recording.
        sites: The model's modules.
        extra: Further modules by site name, such as ``model.layers.0.input_layernorm:out``.
        router: Learns which cache the running requests fill.
    """

    def __init__(
        self, session: Session, sites: ModelMap, extra: dict[str, nn.Module], router: Router
    ) -> None:
        self._session = session
        self._sites = sites
        self._extra = extra
        self._router = router
        self.cache_tap = CacheTap(session)

    def attach(self, stack: ExitStack) -> None:
        """Register every hook; leaving *stack* removes them."""
        sites = self._sites
        if sites.embedding:
            self._after(stack, sites.embedding[1], self._embedding_out)
        layers: dict[int, list[Layer]] = {}
        for layer in sites.layers:
            layers.setdefault(id(layer.module), []).append(layer)
        for shared in layers.values():
            self._around(stack, shared[0].module, shared, self._layer_in, self._layer_out)
        parts: dict[int, list[tuple[Layer, Part]]] = {}
        for layer in sites.layers:
            for part in layer.parts:
                parts.setdefault(id(part.module), []).append((layer, part))
        for owners in parts.values():
            self._around(stack, owners[0][1].module, owners, self._part_in, self._part_out)
        for name, module in sites.norms:
            self._before(stack, module, self._norm_in, name)
            self._after(stack, module, self._norm_out, name)
        if sites.head:
            self._after(stack, sites.head[1], self._head_out, sites.head[0])
        for name, module in self._extra.items():
            if name.endswith(":in"):
                self._before(stack, module, self._extra_in, name)
            else:
                self._after(stack, module, self._extra_out, name)

    # Registering

    def _around(
        self,
        stack: ExitStack,
        module: nn.Module,
        owners: list[Any],
        enter: Callable[..., None],
        leave: Callable[..., None],
    ) -> None:
        self._before(stack, module, enter, owners)
        self._after(stack, module, leave, owners)

    def _before(
        self, stack: ExitStack, module: nn.Module, body: Callable[..., None], *known: Any
    ) -> None:
        session = self._session

        def hook(module: nn.Module, args: Arguments, kwargs: Keywords) -> None:
            if session.active is None or torch.compiler.is_compiling():
                return
            if active := session.here():
                session.guard(body, active, Visit(module, args, kwargs), *known)

        handle = module.register_forward_pre_hook(hook, with_kwargs=True)
        stack.callback(handle.remove)

    def _after(
        self, stack: ExitStack, module: nn.Module, body: Callable[..., None], *known: Any
    ) -> None:
        session = self._session

        def hook(module: nn.Module, args: Arguments, kwargs: Keywords, output: Any) -> None:
            if session.active is None or torch.compiler.is_compiling():
                return
            if active := session.here():
                session.guard(body, active, Visit(module, args, kwargs, output), *known)

        handle = module.register_forward_hook(hook, with_kwargs=True)
        stack.callback(handle.remove)

    # Bodies, in the order in which a pass runs them

    def _embedding_out(self, active: PassState, visit: Visit) -> None:
        assert self._sites.embedding is not None
        name = f"{self._sites.embedding[0]}:out"
        if active.layers:
            return
        if self._see(active, name, visit.module, visit.main, lambda: Site(name)):
            active.stream = name

    def _layer_in(self, active: PassState, visit: Visit, owners: list[Layer]) -> None:
        layer = next((o for o in owners if o.index not in active.layers), owners[-1])
        if layer.index in active.layers:
            self._session.gap(f"{layer.name} ran more than once in a pass")
            return
        active.layers.add(layer.index)
        active.trace = LayerTrace(layer)
        self._watch_cache(active, visit)
        self._see_rope(active, visit.kwargs.get("position_ids"))
        name = active.trace.entry
        inputs = (active.stream,) if active.stream else ()
        self._see(
            active,
            name,
            None,
            visit.input,
            lambda: Site(
                name,
                layer_index=layer.index,
                layer_kind=layer.kind,
                inputs=inputs,
                glue=len(inputs) == 1,
            ),
        )

    def _part_in(self, active: PassState, visit: Visit, owners: list[tuple[Layer, Part]]) -> None:
        part = _running(active, owners)
        if part is None or not part.is_mixer:
            return
        active.part = part
        cache = self._watch_cache(active, visit)
        if part.has_state and cache is not None:
            observe_states(self._session, active, part, cache, Moment.IN)

    def _part_out(self, active: PassState, visit: Visit, owners: list[tuple[Layer, Part]]) -> None:
        part = _running(active, owners)
        trace = active.trace
        if part is None or trace is None:
            return
        cached: list[str] = []
        if part.is_mixer:
            cached = self._cached_inputs(active, part, active.group.cache)
            active.part = None
        name = f"{part.name}:out"
        describe = partial(_part_site, name, trace, part, cached)
        self._see(active, name, visit.module, visit.main, describe)
        trace.finished.append(part)

    def _cached_inputs(self, active: PassState, part: Part, cache: Any) -> list[str]:
        """Sites of the values that a mixer keeps, those of a pass without a cache included."""
        names: list[str] = []
        if part.has_kv:
            names += declare_kv(self._session, active, None)
        if part.has_state and cache is not None:
            names += observe_states(self._session, active, part, cache, Moment.OUT)
        elif part.has_state:
            names += self._declare_states(active, part)
        return names

    def _declare_states(self, active: PassState, part: Part) -> list[str]:
        trace = active.trace
        assert trace is not None
        names = []
        for port, kind in (
            ("recurrent", TensorKind.RECURRENT_STATE),
            ("conv", TensorKind.CONV_STATE),
        ):
            names.append(f"{part.name}:{port}")
            self._session.book.take(names[-1], partial(state_site, names[-1], kind, trace, part))
        return names

    def _layer_out(self, active: PassState, visit: Visit, owners: list[Layer]) -> None:
        trace = active.trace
        if trace is None or trace.layer not in owners:
            return
        hidden, second = visit.main, visit.second
        name, kind = f"{trace.layer.name}:out", TensorKind.HIDDEN
        self._see(active, name, visit.module, hidden, partial(_layer_site, name, kind, trace))
        active.stream, active.trace, active.part = name, None, None
        if second is not None and hidden is not None and second.shape == hidden.shape:
            name, kind = f"{trace.layer.name}:residual", TensorKind.RESIDUAL
            describe = partial(_layer_site, name, kind, trace)
            self._see(active, name, visit.module, second, describe, kind)

    def _norm_in(self, active: PassState, visit: Visit, name: str) -> None:
        """What the last layer left may be changed on its way here, as between layers."""
        if self._past_layers(active):
            self._follow(active, f"{name}:in", None, visit.input, glue=True)

    def _norm_out(self, active: PassState, visit: Visit, name: str) -> None:
        if self._past_layers(active):
            self._follow(active, f"{name}:out", visit.module, visit.main)

    def _past_layers(self, active: PassState) -> bool:
        return len(active.layers) == len(self._sites.layers) and active.trace is None

    def _head_out(self, active: PassState, visit: Visit, name: str) -> None:
        if not active.layers:
            return
        site, kind = f"{name}:out", TensorKind.LOGITS
        inputs = (active.stream,)
        describe = partial(Site, site, kind, inputs=inputs)
        self._see(active, site, visit.module, visit.main, describe, kind)

    def _extra_in(self, active: PassState, visit: Visit, name: str) -> None:
        describe = partial(_extra_site, name, active)
        self._see(active, name, None, visit.input, describe, TensorKind.AUX)

    def _extra_out(self, active: PassState, visit: Visit, name: str) -> None:
        describe = partial(_extra_site, name, active)
        self._see(active, name, visit.module, visit.main, describe, TensorKind.AUX)

    # Seeing

    def _see(
        self,
        active: PassState,
        name: str,
        module: nn.Module | None,
        tensor: torch.Tensor | None,
        describe: Callable[[], Site],
        kind: TensorKind = TensorKind.HIDDEN,
    ) -> bool:
        session = self._session
        if tensor is None:
            session.gap(f"{name} gave no tensor")
            return False
        kernel = NO_TEXT if module is None else session.kernel(active, module, tensor)
        site = session.book.take(name, describe)
        if site is not None:
            session.observe(active, site, tensor, kind=kind, kernel=kernel)
        return True

    def _follow(
        self,
        active: PassState,
        name: str,
        module: nn.Module | None,
        tensor: torch.Tensor | None,
        *,
        glue: bool = False,
    ) -> None:
        """See what the stream is after its last layer."""
        described = partial(Site, name, inputs=(active.stream,), glue=glue)
        if self._see(active, name, module, tensor, described):
            active.stream = name

    def _see_rope(self, active: PassState, position_ids: object) -> None:
        if active.rope_known or position_ids is None:
            return
        active.rope_known = True
        ledger = self._session.ledger
        ledger.append("rope", rope_of(position_ids, active.rows, active.width, ledger.pass_index))

    def _watch_cache(self, active: PassState, visit: Visit) -> Any:
        """The cache that a module was given, watched from now to the end of the pass."""
        cache = find_cache(visit.args, visit.kwargs)
        if cache is not None:
            self.cache_tap.attach(active, cache)
            if active.group.cache is not cache:
                # The model made it in this pass, so it was empty.
                self._router.own(active.group, cache)
        return cache


def _running(active: PassState, owners: list[tuple[Layer, Part]]) -> Part | None:
    """Which part a module is in the layer that runs; a module may be shared by layers."""
    if active.trace is None:
        return None
    index = active.trace.layer.index
    return next((part for layer, part in owners if layer.index == index), None)


def _part_site(name: str, trace: LayerTrace, part: Part, cached: list[str]) -> Site:
    reach = Reach.STATE if part.has_state else Reach.PREFIX if part.is_mixer else Reach.ROW
    layer, inputs = trace.layer, (*trace.before(part), *cached)
    return Site(name, TensorKind.HIDDEN, layer.index, layer.kind, reach, inputs)


def _layer_site(name: str, kind: TensorKind, trace: LayerTrace) -> Site:
    layer = trace.layer
    reach = Reach.ROW if layer.has_mixer else Reach.PREFIX
    glue = kind is TensorKind.HIDDEN and len(trace.before_end) > 1
    return Site(name, kind, layer.index, layer.kind, reach, trace.before_end, glue=glue)


def _extra_site(name: str, active: PassState) -> Site:
    """A module that nothing is known of: it may depend on all that came before it."""
    trace = active.trace
    if trace is None:
        inputs = (active.stream,) if active.stream else ()
        return Site(name, TensorKind.AUX, reach=Reach.PREFIX, inputs=inputs)
    layer = trace.layer
    return Site(name, TensorKind.AUX, layer.index, layer.kind, Reach.PREFIX, trace.before_end)
