"""Planted differences in a toy model come out as origins at exactly their cells."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layerdiff.comparison import Comparison, compare_dumps
from layerdiff.format.reader import Dump
from layerdiff.testing import Plant, ToyRequest, toy_dump
from layerdiff.vocabulary import Mark, Moment, OriginKind, Verdict

LAYERS = ("linear attention", "full attention") * 2
TOKENS = tuple(np.random.default_rng(0).integers(0, 32, 24).tolist())
HIT = 10


def warm(path: Path, *plants: Plant, sketches: bool = True) -> Path:
    """One request fills the cache with 10 tokens, another takes it over."""
    requests = [ToyRequest("fill", TOKENS[:HIT]), ToyRequest("r1", TOKENS, takes="fill")]
    return toy_dump(path, requests, arm="warm", layers=LAYERS, plants=plants, sketches=sketches)


def compare(baseline: Path, candidate: Path) -> Comparison:
    """Compares two dumps by path."""
    return compare_dumps(Dump.open(baseline), Dump.open(candidate))


def sites() -> list[tuple[str, Moment, int]]:
    """Every site of the toy model with a position where something can be planted."""
    found = []
    for layer, kind in enumerate(LAYERS):
        name = f"model.layers.{layer}"
        mixer = "linear_attn" if kind.startswith("linear") else "self_attn"
        found += [
            (f"{name}:in", Moment.COMPUTED, 13),
            (f"{name}.{mixer}:out", Moment.COMPUTED, 13),
        ]
        found += [(f"{name}.mlp:out", Moment.COMPUTED, 3), (f"{name}:out", Moment.COMPUTED, 17)]
        if mixer == "self_attn":
            for tensor in ("key", "value"):
                found += [(f"{name}.{mixer}:{tensor}", moment, at) for moment, at in _KV]
        else:
            for tensor in ("recurrent", "conv"):
                found.append((f"{name}.{mixer}:{tensor}", Moment.IN, HIT))
    return [*found, ("model.norm:out", Moment.COMPUTED, 5), ("lm_head:out", Moment.COMPUTED, 20)]


_KV = ((Moment.COMPUTED, 13), (Moment.IN, 5))


@pytest.mark.parametrize(("site", "moment", "position"), sites())
def test_a_planted_difference_is_the_first_origin(
    tmp_path: Path, site: str, moment: Moment, position: int
) -> None:
    """Wherever one value is changed, that cell and no other is named first."""
    plant = Plant(site, position, moment, request="r1" if position >= HIT else None)
    if moment is Moment.IN:
        plant = replace(plant, request="r1")
    report = compare(warm(tmp_path / "a.h5"), warm(tmp_path / "b.h5", plant)).report
    first = report.origins[0]
    assert report.verdict is Verdict.DIVERGED
    assert (first.site, first.position) == (site, position)
    assert len(report.origins) == 1


def test_two_independent_differences_are_two_origins(tmp_path: Path) -> None:
    """A second cause is reported beside the first, not after its repair."""
    deep = Plant("model.layers.3.mlp:out", 4, request="fill")
    early = Plant("model.layers.0.linear_attn:recurrent", HIT, Moment.IN, request="r1")
    report = compare(warm(tmp_path / "a.h5"), warm(tmp_path / "b.h5", deep, early)).report
    found = {(origin.site, origin.position) for origin in report.origins}
    assert found == {(deep.site, deep.position), (early.site, early.position)}


def test_a_value_that_changed_in_the_cache_ranks_before_a_jump(tmp_path: Path) -> None:
    """What breaks inside one arm needs no baseline, so it is the stronger answer."""
    jump = Plant("model.layers.0:out", 2, request="fill", scale=100.0)
    silent = Plant("model.layers.3.self_attn:value", 5, Moment.IN, request="r1", scale=1.0000002)
    report = compare(warm(tmp_path / "a.h5"), warm(tmp_path / "b.h5", jump, silent)).report
    assert report.origins[0].site == silent.site
    assert report.origins[0].origin_kind is OriginKind.STATE


def test_a_difference_between_two_modules_is_glue(tmp_path: Path) -> None:
    """A layer whose input differs from what the layer before it gave is not to blame."""
    plant = Plant("model.layers.2:in", 13, request="r1")
    report = compare(warm(tmp_path / "a.h5"), warm(tmp_path / "b.h5", plant)).report
    assert report.origins[0].origin_kind is OriginKind.GLUE


def test_a_kernel_is_blamed_when_its_inputs_agree(tmp_path: Path) -> None:
    """A mixer's row that differs over equal inputs is a kernel's doing."""
    plant = Plant("model.layers.1.self_attn:out", 13, request="r1")
    report = compare(warm(tmp_path / "a.h5"), warm(tmp_path / "b.h5", plant)).report
    assert report.origins[0].origin_kind is OriginKind.KERNEL


def test_what_agrees_behind_a_difference_is_healed(tmp_path: Path) -> None:
    """A cell whose inputs differ and which agrees all the same is marked so."""
    plants = [
        Plant("model.layers.0.mlp:out", 13, request="r1", scale=2.0),
        Plant("model.layers.0:out", 13, request="r1"),
    ]
    comparison = compare(warm(tmp_path / "a.h5", plants[1]), warm(tmp_path / "b.h5", plants[1]))
    assert comparison.report.verdict is Verdict.IDENTICAL
    comparison = compare(warm(tmp_path / "a2.h5"), warm(tmp_path / "b2.h5", plants[0]))
    columns = comparison.pairs[-1].trace.columns.values()
    mlp = next(c for c in columns if c.site.name == "model.layers.0.mlp:out")
    assert mlp.mark[13] == Mark.ORIGIN


def test_without_sketches_the_size_is_unknown(tmp_path: Path) -> None:
    """Rounding or corruption cannot be told from digests alone, and the report says so."""
    plant = Plant("model.layers.1:out", 13, request="r1")
    report = compare(
        warm(tmp_path / "a.h5", sketches=False), warm(tmp_path / "b.h5", plant, sketches=False)
    ).report
    assert report.origins[0].severity.size.value == "unknown"
    assert not report.sketched


chunkings = st.lists(st.integers(1, 23), max_size=4, unique=True).map(lambda c: tuple(sorted(c)))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ours=chunkings, theirs=chunkings)
def test_chunking_alone_is_no_difference(
    tmp_path: Path, ours: tuple[int, ...], theirs: tuple[int, ...]
) -> None:
    """Cells are paired by absolute position, whatever the passes."""
    a = toy_dump(tmp_path / "a.h5", [ToyRequest("r1", TOKENS, ours)], layers=LAYERS)
    b = toy_dump(tmp_path / "b.h5", [ToyRequest("r1", TOKENS, theirs)], layers=LAYERS)
    report = compare(a, b).report
    assert report.verdict is Verdict.IDENTICAL
    assert report.coverage.missing_in_baseline == report.coverage.missing_in_candidate == 0


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), chunks=chunkings)
def test_the_origins_are_the_frontier(
    tmp_path: Path, data: st.DataObject, chunks: tuple[int, ...]
) -> None:
    """Row origins are exactly the cells that differ while all their direct inputs agree."""
    names = [name for name, moment, _ in sites() if moment is Moment.COMPUTED]
    plants = [
        Plant(data.draw(st.sampled_from(names)), data.draw(st.integers(0, 23)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    request = ToyRequest("r1", TOKENS, chunks)
    a = toy_dump(tmp_path / "a.h5", [request], layers=LAYERS)
    b = toy_dump(tmp_path / "b.h5", [request], layers=LAYERS, plants=plants)
    comparison = compare(a, b)
    marked = {
        (column.site.name, int(position))
        for column in comparison.pairs[0].trace.columns.values()
        if column.moment is Moment.COMPUTED and column.site.reach.name != "STATE"
        for position in np.flatnonzero(column.mark == Mark.ORIGIN)
    }
    assert marked >= frontier(a, b)
    assert all(origin.severity.size.value == "jump" for origin in comparison.report.origins)


def frontier(a: Path, b: Path) -> set[tuple[str, int]]:
    """The same by definition: one cell after the other, straight from the digests."""
    with Dump.open(a) as left, Dump.open(b) as right:
        cells = [_rows(left), _rows(right)]
        found = set()
        for site in right.sites:
            if site.kind.is_state or site.reach.name == "STATE":
                continue
            for position in range(len(TOKENS)):
                if cells[0][site.name][position] == cells[1][site.name][position]:
                    continue
                first = 0 if site.reach.name == "PREFIX" else position
                inputs = [
                    (right.sites[index].name, at)
                    for index in site.inputs
                    for at in range(
                        first if right.sites[index].kind.is_kv else position, position + 1
                    )
                ]
                if all(cells[0][name][at] == cells[1][name][at] for name, at in inputs):
                    found.add((site.name, position))
        return found


def _rows(dump: Dump) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {site.name: [0] * len(TOKENS) for site in dump.sites}
    for observation in dump.observations:
        if observation["moment"] != Moment.COMPUTED:
            continue
        at = int(observation["first_digest"])
        for span in dump.rowset(int(observation["rowset"])):
            for position in range(int(span["start"]), int(span["stop"])):
                rows[dump.sites[observation["site"]].name][position] = int(dump.digests(at, 1)[0])
                at += 1
    return rows


def test_ranks_count_from_one(tmp_path: Path) -> None:
    """Origins are numbered in the order in which they should be read."""
    plants = [Plant(f"model.layers.{layer}.mlp:out", 3, request="fill") for layer in (0, 2)]
    report = compare(warm(tmp_path / "a.h5"), warm(tmp_path / "b.h5", *plants)).report
    assert [b.rank - a.rank for a, b in pairwise(report.origins)] == [1] * (
        len(report.origins) - 1
    )
