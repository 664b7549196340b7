"""The rows of the grid: one a layer, opened into one for each of its sites and moments."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from layerdiff.format.records import Site
from layerdiff.vocabulary import Moment, Role
from layerdiff_tui.marks import Marks, worst
from layerdiff_tui.plain import shown


@dataclass(frozen=True, slots=True)
class Column:
    """One site at one moment with a mark for each position: what a row is made of."""

    site: Site
    moment: Moment
    marks: Marks
    baseline_only: bool = False
    """The site is one of the baseline's that the candidate lacks."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the grid."""

    key: str
    """Unique inside a view."""
    label: str
    """Without what opens and closes it."""
    marks: Marks
    columns: tuple[Column, ...]
    """What it stands for: one column, or all of a layer."""
    children: tuple["Row", ...] = ()
    depth: int = 0

    def column_at(self, position: int) -> Column:
        """The column whose mark the row shows at a position."""
        mark = self.marks[position]
        return next(
            (column for column in self.columns if column.marks[position] == mark), self.columns[0]
        )

    @property
    def layer(self) -> tuple[Role, int] | None:
        """The layer that it is or lies in."""
        site = self.columns[0].site
        return None if site.layer_index is None else (site.role, site.layer_index)


def site_key(site: Site, moment: Moment, *, baseline_only: bool = False) -> str:
    """The key of the row of one site and moment."""
    return f"{'baseline ' if baseline_only else ''}site {site.index} {moment.word}"


def layer_rows(columns: Iterable[Column], lone: int | None = None) -> tuple[Row, ...]:
    """Rows for columns in the order in which sites depend on each other.

    Sites of one layer share a row; a site outside any layer has its own.

    Args:
        lone: The mark of a value that one arm alone has. What one arm alone read or left says
            little of a layer, as arms in other chunks look at other times: the layer's row shows
            it only where there is nothing else.
    """
    groups: dict[tuple[str, int, int], list[Column]] = {}
    for column in columns:
        site = column.site
        if site.layer_index is None:
            key = ("site", int(column.baseline_only), site.index)
        else:
            key = ("layer", int(site.role), site.layer_index)
        groups.setdefault(key, []).append(column)
    width = max((len(str(layer)) for kind, _, layer in groups if kind == "layer"), default=1)
    return tuple(
        _layer_row(found, width, lone) if kind == "layer" else _outside_row(found)
        for (kind, _, _), found in groups.items()
    )


def _layer_row(columns: list[Column], width: int, lone: int | None) -> Row:
    site = columns[0].site
    kind = next((c.site.layer_kind for c in columns if c.site.layer_kind), "")
    drafter = "d" if site.role is Role.DRAFTER else ""
    return Row(
        key=f"{site.role.word} layer {site.layer_index}",
        label=f"{drafter}{site.layer_index:>{width}} {shown(kind)}".rstrip(),
        marks=_layer_marks(columns, lone),
        columns=tuple(columns),
        children=_site_rows(columns),
    )


def _layer_marks(columns: list[Column], lone: int | None) -> Marks:
    every = worst([column.marks for column in columns])
    if lone is None:
        return every
    telling = worst(
        [
            np.where(column.marks == lone, 0, column.marks).astype(np.uint8)
            if column.moment is not Moment.COMPUTED
            else column.marks
            for column in columns
        ]
    )
    return np.where(telling == 0, every, telling)


def _outside_row(columns: list[Column]) -> Row:
    if len(columns) == 1:
        return _site_row(columns[0], outside_name(columns[0].site), depth=0)
    site = columns[0].site
    return Row(
        key=f"outside {site.index}",
        label=outside_name(site),
        marks=worst([column.marks for column in columns]),
        columns=tuple(columns),
        children=_site_rows(columns),
    )


def _site_rows(columns: list[Column]) -> tuple[Row, ...]:
    names = short_names([column.site for column in columns])
    return tuple(
        _site_row(column, name, depth=1) for column, name in zip(columns, names, strict=True)
    )


def _site_row(column: Column, name: str, depth: int) -> Row:
    site, moment = column.site, column.moment
    label = f"{name} {moment.word}" if site.kind.is_kv or site.kind.is_state else name
    key = site_key(site, moment, baseline_only=column.baseline_only)
    return Row(key, label, column.marks, (column,), depth=depth)


def outside_name(site: Site) -> str:
    """``norm:in`` of ``model.norm:in``; the module alone for its ``out``."""
    return shown(_module(site.name).removesuffix(":out"))


def short_names(sites: Sequence[Site]) -> list[str]:
    """The ends of the sites' names, as long as it takes to tell the sites apart."""
    full = {site.name for site in sites}
    found: dict[str, str] = {}
    for shorten in (_port, _module, str):
        names = {name: shorten(name) for name in full if name not in found}
        taken = [*found.values(), *names.values()]
        found |= {
            name: short
            for name, short in names.items()
            if short and (taken.count(short) == 1 or shorten is str)
        }
    return [shown(found[site.name]) for site in sites]


def _port(name: str) -> str:
    """``key`` of ``model.layers.3.self_attn:key``; the module itself for its ``out``."""
    module, _, port = name.rpartition(":")
    last = module.rsplit(".", 1)[-1]
    if port != "out":
        return port or name
    return "out" if last.isdigit() else last


def _module(name: str) -> str:
    """``self_attn:key`` of ``model.layers.3.self_attn:key``."""
    return name.rsplit(".", 1)[-1]


def visible(rows: Sequence[Row], opened: Set[str]) -> list[Row]:
    """The rows that are shown when those with the keys *opened* are open."""
    found = []
    for row in rows:
        found.append(row)
        if row.key in opened:
            found.extend(row.children)
    return found


def parent_of(rows: Sequence[Row], key: str) -> Row | None:
    """The row that must be open for the row with that key to be shown."""
    for row in rows:
        if any(child.key == key for child in row.children):
            return row
    return None
