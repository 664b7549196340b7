"""Layers, their sites, and how they are named."""

import numpy as np

from layerdiff.format.records import Site
from layerdiff.vocabulary import Mark, Moment, Reach, Role, TensorKind
from layerdiff_tui.rows import Column, layer_rows, parent_of, short_names, visible


def make_site(
    index: int, name: str, layer: int | None = None, kind: TensorKind = TensorKind.HIDDEN
) -> Site:
    """A site that depends on nothing."""
    return Site(index, name, layer, "mlp" if layer is not None else "", Role.TARGET, kind,
                Reach.ROW, ())  # fmt: skip


def make_column(site: Site, marks: list[int], moment: Moment = Moment.COMPUTED) -> Column:
    """A column with those marks."""
    return Column(site, moment, np.array(marks, np.uint8))


def test_sites_of_a_layer_share_a_row_with_the_worst_mark() -> None:
    """The row of a layer says at a glance whether to open it."""
    columns = [
        make_column(make_site(0, "embed:out"), [1, 1]),
        make_column(make_site(1, "layers.0:in", 0), [1, 1]),
        make_column(make_site(2, "layers.0:out", 0), [1, 6]),
        make_column(make_site(3, "m.head:in"), [1, 5]),
        make_column(make_site(4, "m.head:out"), [1, 5]),
    ]
    rows = layer_rows(columns)
    assert [row.label for row in rows] == ["embed", "0 mlp", "head:in", "head"]
    assert [row.marks.tolist() for row in rows[:3]] == [[1, 1], [1, 6], [1, 5]]
    assert [row.label for row in rows[1].children] == ["in", "out"]
    assert len({row.key for row in visible(rows, {rows[1].key})}) == 6


def test_an_open_row_is_followed_by_its_sites() -> None:
    """And a closed one is not."""
    rows = layer_rows([make_column(make_site(i, f"layers.0:{i}", 0), [1]) for i in range(3)])
    assert len(visible(rows, set())) == 1
    assert len(visible(rows, {rows[0].key})) == 4
    assert parent_of(rows, rows[0].children[2].key) is rows[0]
    assert parent_of(rows, rows[0].key) is None


def test_moments_of_one_site_are_rows_of_their_own() -> None:
    """A key as computed is not the key as read."""
    site = make_site(0, "layers.0.attn:key", 0, TensorKind.KV_KEY)
    rows = layer_rows([make_column(site, [1]), make_column(site, [6], Moment.IN)])
    assert [row.label for row in rows[0].children] == ["key computed", "key in"]


def test_a_layer_row_shows_what_one_arm_alone_read_only_where_nothing_else_is() -> None:
    """Arms in other chunks read their caches at other times, and that alone is no news."""
    lone = int(Mark.UNPAIRED)
    state = make_site(0, "layers.0.mix:state", 0, TensorKind.RECURRENT_STATE)
    columns = [
        make_column(make_site(1, "layers.0:out", 0), [1, 1, 0, lone]),
        make_column(state, [0, lone, lone, 0], Moment.IN),
    ]
    row = layer_rows(columns, lone)[0]
    assert row.marks.tolist() == [1, 1, lone, lone]
    assert row.column_at(1).site.name == "layers.0:out"
    assert row.column_at(2).site.name == "layers.0.mix:state"


def test_names_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    """Two keys in one layer keep their modules."""
    names = ["m.layers.3:in", "m.layers.3.a:key", "m.layers.3.b:key", "m.layers.3.mlp:out"]
    sites = [make_site(index, name, 3) for index, name in enumerate(names)]
    assert short_names(sites) == ["in", "a:key", "b:key", "mlp"]


def test_names_that_end_alike_stay_whole() -> None:
    """Nothing is guessed."""
    sites = [make_site(0, "x.a.mlp:out", 0), make_site(1, "y.a.mlp:out", 0)]
    assert short_names(sites) == ["x.a.mlp:out", "y.a.mlp:out"]
