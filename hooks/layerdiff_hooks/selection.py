"""Which sites a recording takes, and what each of them depends on among those it takes."""

import difflib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from layerdiff.errors import CaptureError
from layerdiff.vocabulary import Reach
from layerdiff_hooks.ledger import Ledger, Site
from layerdiff_hooks.sites import ModelMap


def standard_names(sites: ModelMap) -> list[str]:
    """The names of the sites that are recorded unless fewer are asked for."""
    names = [f"{sites.embedding[0]}:out"] if sites.embedding else []
    for layer in sites.layers:
        names.append(f"{layer.name}:in")
        for part in layer.parts:
            names += [f"{part.name}:{port}" for port in ("key", "value") if part.has_kv]
            names += [f"{part.name}:{port}" for port in ("recurrent", "conv") if part.has_state]
            names.append(f"{part.name}:out")
        names.append(f"{layer.name}:out")
    names += [f"{name}:{port}" for name, _ in sites.norms for port in ("in", "out")]
    return names + ([f"{sites.head[0]}:out"] if sites.head else [])


class Selection:
    """Chooses by glob; a pattern without a colon means every port of a module.

    Args:
        patterns: Globs; None for the standard sites. A pattern that fits no standard site may
            name the input or output of any other module.

    Raises:
        CaptureError: A pattern fits nothing.
    """

    def __init__(self, sites: ModelMap, patterns: Sequence[str] | None) -> None:
        self.patterns = None if patterns is None else tuple(map(_with_port, patterns))
        self.extra: dict[str, nn.Module] = {}
        """Site names that only a pattern brought in."""
        self._chosen: dict[str, bool] = {}
        if self.patterns is None:
            return
        standard = standard_names(sites)
        others = {
            f"{name}:{port}": module
            for name, module in sites.root.named_modules()
            for port in ("in", "out")
            if name
        }
        for pattern in self.patterns:
            if any(fnmatchcase(name, pattern) for name in standard):
                continue
            found = {n: m for n, m in others.items() if fnmatchcase(n, pattern)}
            if not found and not pattern.endswith((":residual", ".1", ".2")):
                raise CaptureError(_no_match(pattern, [*standard, *others]))
            self.extra.update(found)

    def wants(self, name: str) -> bool:
        """Whether a site is recorded."""
        if self.patterns is None:
            return True
        known = self._chosen.get(name)
        if known is None:
            known = any(fnmatchcase(name, pattern) for pattern in self.patterns)
            self._chosen[name] = known
        return known


class SiteBook:
    """Gives sites their ids; a site that is not recorded hands its inputs on to the next."""

    def __init__(self, ledger: Ledger, selection: Selection) -> None:
        self._ledger = ledger
        self._selection = selection
        self._known: dict[str, int | None] = {}
        self._hidden: dict[str, Site] = {}

    def find(self, name: str) -> tuple[bool, int | None]:
        """Whether a name was declared, and its id if it is recorded."""
        return name in self._known, self._known.get(name)

    def take(self, name: str, describe: Callable[[], Site]) -> int | None:
        """The id of the site *name*, which is described when it is new; None as in `declare`."""
        if name in self._known:
            return self._known[name]
        return self.declare(describe())

    def declare(self, site: Site) -> int | None:
        """The id of *site*, or None when it is not recorded; its inputs come first."""
        if site.name in self._known:
            return self._known[site.name]
        inputs: dict[str, None] = {}
        reach = site.reach
        for name in site.inputs:
            hidden = self._hidden.get(name)
            if hidden is None:
                inputs[name] = None
            else:
                inputs.update(dict.fromkeys(hidden.inputs))
                reach = Reach(max(reach, hidden.reach))
        resolved = Site(
            site.name,
            site.kind,
            site.layer_index,
            site.layer_kind,
            reach,
            tuple(inputs),
            glue=site.glue and tuple(inputs) == site.inputs,
        )
        identifier = None
        if self._selection.wants(site.name):
            identifier = self._ledger.site(resolved)
        else:
            self._hidden[site.name] = resolved
        self._known[site.name] = identifier
        return identifier


def _with_port(pattern: str) -> str:
    return pattern if ":" in pattern else f"{pattern}:*"


def _no_match(pattern: str, names: list[str]) -> str:
    close = difflib.get_close_matches(pattern, names, n=3, cutoff=0.3)
    hint = f"; close are {', '.join(close)}" if close else ""
    return f"--select {pattern!r} fits no site of this model{hint}"
