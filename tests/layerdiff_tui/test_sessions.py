"""What is shown of a pair and of one dump."""

from pathlib import Path

import numpy as np
import pytest

from layerdiff.vocabulary import Mark
from layerdiff_tui.details import Fact, Sides
from layerdiff_tui.marks import DumpMark
from layerdiff_tui.opening import open_names
from layerdiff_tui.rows import Row, visible
from layerdiff_tui.session import Session, Spot, View
from tests.layerdiff_tui import dumps


def load(*paths: Path) -> Session:
    """One dump or a pair."""
    return open_names(str(paths[0]), str(paths[1]) if len(paths) > 1 else None, []).load()


def every_row(view: View) -> dict[str, Row]:
    """All rows by label, each layer's after it."""
    rows = visible(view.rows, {row.key for row in view.rows})
    return {f"{row.columns[0].site.layer_index} {row.label.strip()}": row for row in rows}


def spot(row: Row, position: int) -> Spot:
    """One position of a row."""
    return Spot(row, position, position + 1, position)


@pytest.fixture(scope="module")
def pair(cold: Path, fault: Path) -> Session:
    """A pair with two planted faults."""
    return load(cold, fault)


def test_origins_have_a_cell_in_the_grid(pair: Session) -> None:
    """The cell of each is marked as an origin, and both planted faults are there."""
    found = set()
    for target in pair.targets:
        rows = {row.key: row for row in every_row(pair.view(target.view)).values()}
        assert target.key is not None
        row = rows[target.key]
        assert row.marks[target.position] == Mark.ORIGIN
        found.add((row.columns[0].site.name, target.position))
    assert {(dumps.MIXER.site, 13), (dumps.KEY.site, 5)} <= found


def test_rows_run_from_embedding_to_head(pair: Session) -> None:
    """In the order in which a difference spreads."""
    labels = [row.label for row in pair.view(0).rows]
    assert labels == [
        "embed_tokens",
        "0 linear attention",
        "1 full attention",
        "2 linear attention",
        "3 full attention",
        "norm",
        "lm_head",
    ]


def test_every_request_is_a_view(pair: Session) -> None:
    """The one that only filled a cache is part of the one that took it over."""
    assert pair.titles == ("r1", "r2")
    assert pair.view(0).takeovers == (dumps.HIT,)
    assert pair.view(0).chunks.tolist() == [0, 10, 20, 21, 22, 23]


def test_the_detail_of_an_origin_says_why_it_is_one(pair: Session) -> None:
    """Digests, size, passes and chunk bounds of both arms, kernels, cause, what is ruled out."""
    row = every_row(pair.view(0))["2 linear_attn"]
    detail = pair.detail(0, spot(row, 13))
    sides = {line.label: line for line in detail.lines if isinstance(line, Sides)}
    facts = {line.label: line.text for line in detail.lines if isinstance(line, Fact)}
    assert detail.title == dumps.MIXER.site
    assert not sides["digest"].same
    assert "of the baseline's norm" in facts["difference"]
    assert sides["seen in"].baseline == "pass 0 prefill [0, 24) of 'r1'"
    assert sides["seen in"].candidate == "pass 1 prefill [10, 20) of 'r1'"
    assert (sides["T_q"].baseline, sides["T_q"].candidate) == ("24", "10")
    assert sides["kernel"].same
    assert facts["cause"].startswith("unknown")
    assert facts["tensor"] == "hidden, computed"


def test_the_detail_of_a_cached_value_shows_it_at_every_moment(pair: Session) -> None:
    """As computed by the request that filled the cache, as read, and as left."""
    row = every_row(pair.view(0))["1 key in"]
    detail = pair.detail(0, spot(row, 5))
    sides = {line.label: line for line in detail.lines if isinstance(line, Sides)}
    facts = {line.label: line.text for line in detail.lines if isinstance(line, Fact)}
    assert sides["computed"].same
    assert sides["as read"].candidate != sides["computed"].candidate
    assert sides["at the end"].candidate == sides["as read"].candidate
    assert sides["written by"].candidate == "pass 0 prefill [0, 10) of 'fill'"
    assert "changed" in facts
    assert facts["cause"].startswith("state-corrupted")


def test_a_state_position_says_what_it_means(pair: Session) -> None:
    """State positions count tokens, rows do not."""
    row = every_row(pair.view(0))["0 recurrent in"]
    facts = {
        line.label: line.text
        for line in pair.detail(0, spot(row, dumps.HIT)).lines
        if isinstance(line, Fact)
    }
    assert facts["position"] == "10 (has consumed 10 tokens)"


def test_every_cell_can_be_described(pair: Session, warm: Path, killed: Path) -> None:
    """Of every row at every position, in pairs and single dumps."""
    for session in (pair, load(warm), load(killed)):
        for index in range(len(session.titles)):
            view = session.view(index)
            for row in every_row(view).values():
                for position in range(0, view.size, 7):
                    assert session.detail(index, spot(row, position)).title


def test_a_pair_without_a_difference_has_no_origin(cold: Path, warm: Path) -> None:
    """And its exit status is that of diff."""
    session = load(cold, warm)
    assert session.targets == ()
    assert session.exit_status == 0
    assert session.answer.startswith("IDENTICAL")
    view = session.view(0)
    assert {int(mark) for row in view.rows for mark in row.marks} <= {Mark.AGREES, Mark.ABSENT}


def test_another_prompt_is_an_origin_that_no_row_shows(cold: Path, fault: Path) -> None:
    """Forced pairs may hold other tokens."""
    session = open_names(f"{cold}::r1", f"{fault}::r2", []).load()
    assert session.targets[0].key is None
    assert session.exit_status == 1


def test_one_dump_shows_what_was_hashed_and_what_was_carried(warm: Path) -> None:
    """Its sign is not that of a cell which agrees."""
    session = load(warm)
    assert session.titles == ("fill", "r1", "r2")
    assert session.answer == "arm warm · complete"
    assert session.exit_status == 0
    rows = every_row(session.view(1))
    key = rows["1 key in"].marks
    assert (key[: dumps.HIT] == DumpMark.HASHED).all()
    assert (key[dumps.HIT : 20] == DumpMark.CARRIED).all()
    assert np.flatnonzero(rows["0 recurrent out"].marks).tolist() == [10, 20, 21, 22, 23, 24]


def test_the_request_named_is_shown_first(warm: Path) -> None:
    """The others are a key away."""
    session = open_names(f"{warm}::r2", None, []).load()
    assert session.titles == ("r2", "fill", "r1")


def test_a_killed_dump_shows_what_was_finished(killed: Path) -> None:
    """Two passes of eight tokens, and not the third."""
    session = load(killed)
    assert "not closed" in session.answer
    view = session.view(0)
    assert np.flatnonzero(view.rows[0].marks).tolist() == list(range(16))
