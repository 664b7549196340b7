"""The reader: what it makes of a sound dump."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layerdiff.digest import CHAIN_START, chain_tokens, row_digests
from layerdiff.errors import DumpError, EmptyDump, NotADump
from layerdiff.format import schema
from layerdiff.format.reader import Dump, open_dumps
from layerdiff.format.writer import DumpWriter
from layerdiff.testing import DumpBuilder, ToyRequest, toy_dump
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind
from tests.layerdiff.hostile import rewrite

TOKENS = (5, 3, 8, 1, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a dump may be made."""
    return tmp_path / "run.h5"


class TestRecords:
    def test_requests_say_none_for_what_is_unknown(self, path: Path) -> None:
        """No caller has to know which number stands for nothing."""
        with DumpBuilder(path) as builder:
            builder.request("fill", TOKENS, hit=None)
            builder.request("r", TOKENS, hit=3, source=0)
        with Dump.open(path) as dump:
            fill, reuse = dump.requests
        assert (fill.name, fill.hit, fill.source) == ("fill", None, None)
        assert (reuse.index, reuse.hit, reuse.source) == (1, 3, 0)

    def test_sites_name_their_inputs_by_index(self, path: Path) -> None:
        """The site graph is usable as it is."""
        with DumpBuilder(path) as builder:
            builder.site("embed:out")
            builder.site("layers.0:in", layer_index=0, layer_kind="mamba", inputs=("embed:out",))
            both = ("embed:out", "layers.0:in")
            builder.site("layers.0:state", kind=TensorKind.CONV_STATE, reach=Reach.STATE)
            builder.site("draft:out", role=Role.DRAFTER, inputs=both)
        with Dump.open(path) as dump:
            embed, first, state, draft = dump.sites
        assert (embed.layer_index, embed.layer_kind, embed.inputs) == (None, "", ())
        assert (first.layer_index, first.layer_kind, first.inputs) == (0, "mamba", (0,))
        assert (state.kind, state.reach) == (TensorKind.CONV_STATE, Reach.STATE)
        assert (draft.role, draft.inputs) == (Role.DRAFTER, (0, 1))

    def test_kernels_have_their_facts_parsed(self, path: Path) -> None:
        """Facts are JSON in the file and a mapping here."""
        with DumpBuilder(path) as builder:
            builder.kernel("Attention.forward", {"T_q": 7}, "model.py:3")
        with Dump.open(path) as dump:
            (kernel,) = dump.kernels
        assert (kernel.name, kernel.facts, kernel.source) == (
            "Attention.forward",
            {"T_q": 7},
            "model.py:3",
        )

    def test_events_have_their_text(self, path: Path) -> None:
        """Gaps and faults are at hand by themselves, in order."""
        with DumpBuilder(path) as builder:
            builder.event(EventKind.LOOKUP, value=7)
            builder.event(EventKind.GAP, text="no cache was seen")
            builder.event(EventKind.FAULT, text="a hook failed")
        with Dump.open(path) as dump:
            assert [event.kind for event in dump.events] == [
                EventKind.LOOKUP,
                EventKind.GAP,
                EventKind.FAULT,
            ]
            assert (dump.events[0].value, dump.events[0].request) == (7, None)
            assert dump.gaps == ("no cache was seen",)
            assert dump.faults == ("a hook failed",)
            assert dump.closed
            assert not dump.complete

    def test_text_cannot_steer_a_terminal(self, path: Path) -> None:
        """Names come from files that anybody may have made."""
        with DumpBuilder(path, arm="\x1b]0;owned\x07", header={"a": ["\ud800"]}) as builder:
            builder.request("r\x1b[2J\n", TOKENS)
        with Dump.open(path) as dump:
            assert dump.requests[0].name == "r\\x1b[2J\\n"
            assert dump.arm == "\\x1b]0;owned\\x07"
            assert dump.header["a"] == ["\\ud800"]


class TestObservations:
    def test_digests_lie_in_order_of_rows_and_parts(self, path: Path) -> None:
        """The index of the first is in the observation."""
        values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        with DumpBuilder(path) as builder:
            request = builder.request("r", TOKENS)
            builder.site("a")
            builder.observe("a", np.zeros((5, 2), np.float16), [(request, 0, 5)])
            builder.site("s", kind=TensorKind.RECURRENT_STATE)
            builder.observe(
                "s", values, [(request, 3, 5)], moment=Moment.OUT, parts=True, dtype="float32"
            )
            builder.commit()
        with Dump.open(path) as dump:
            record = dump.observations[1]
            found = dump.digests(record["first_digest"], record["rows"] * record["parts"])
            expected = row_digests(values.reshape(6, 4).view(np.uint8), "float32", (4,))
            assert found.tolist() == expected.tolist()
            sketches = dump.sketches(record["first_digest"], 6)
            assert sketches is not None
            assert sketches[:, 0] == pytest.approx(np.linalg.norm(values.reshape(6, 4), axis=1))
            assert (dump.dtype_name(0), dump.dtype_name(1)) == ("float16", "float32")
            assert dump.shape(record["shape"]) == (4,)
            assert dump.observations["flags"].tolist() == [schema.FLAG_ALL_ZERO, 0]
            dump.check_roots()

    def test_carried_ones_have_neither_digests_nor_dtype(self, path: Path) -> None:
        """They say where nothing was hashed, not what was there."""
        with DumpBuilder(path) as builder:
            request = builder.request("r", TOKENS)
            builder.site("k", kind=TensorKind.KV_KEY)
            builder.carried("k", [(request, 0, 3)])
        with Dump.open(path) as dump:
            assert dump.digest_count == 0
            assert dump.dtype_name(0) == ""
            assert dump.rowset_rows(dump.observations["rowset"][0]) == 3

    def test_a_dump_without_sketches_says_so(self, path: Path) -> None:
        """None is not an empty array."""
        toy_dump(path, [ToyRequest("r", TOKENS)], sketches=False)
        with Dump.open(path) as dump:
            assert not dump.has_sketches
            assert dump.sketches(0, 1) is None

    def test_a_range_beyond_the_digests_is_an_error(self, path: Path) -> None:
        """Of the caller, as observations never reach so far."""
        toy_dump(path, [ToyRequest("r", TOKENS)])
        with Dump.open(path) as dump:
            for first, count in ((dump.digest_count, 1), (-1, 1), (0, -1)):
                with pytest.raises(IndexError):
                    dump.digests(first, count)

    def test_passes_own_what_was_committed_with_them(self, path: Path) -> None:
        """Their slices tile the table."""
        toy_dump(path, [ToyRequest("r", TOKENS, chunks=(2, 3))])
        with Dump.open(path) as dump:
            slices = [dump.observations_of(index) for index in range(len(dump.passes))]
            assert [s.start for s in slices[1:]] == [s.stop for s in slices[:-1]]
            for index, part in enumerate(slices):
                assert (dump.observations["pass_index"][part] == index).all()

    def test_rowsets_are_lists_of_spans(self, path: Path) -> None:
        """In the order in which they were given."""
        with DumpBuilder(path) as builder:
            for name in ("a", "b"):
                builder.request(name, TOKENS)
            one, two = builder.rowset([(1, 2, 5), (0, 0, 1)]), builder.rowset([(0, 4, 4)])
        with Dump.open(path) as dump:
            assert dump.rowset(one)[["request", "start", "stop"]].tolist() == [
                (1, 2, 5),
                (0, 0, 1),
            ]
            assert (dump.rowset_rows(one), dump.rowset_rows(two)) == (4, 0)
            assert len(dump.rowset(schema.NO_TEXT)) == dump.rowset_rows(schema.NO_TEXT) == 0


class TestChain:
    def test_it_is_in_order_of_position(self, path: Path) -> None:
        """Whatever the order of writing; given tokens are told from generated ones."""
        with DumpBuilder(path) as builder:
            builder.request("r", TOKENS, given=3)
            builder.request("other", (1, 2))
        with Dump.open(path) as dump:
            positions, chains, given = dump.chain(0)
        assert positions.tolist() == [0, 1, 2, 3, 4]
        assert chains.tolist() == chain_tokens(CHAIN_START, TOKENS).tolist()
        assert given.tolist() == [True, True, True, False, False]

    def test_the_last_record_of_a_position_counts(self, path: Path) -> None:
        """A rolled-back token is replaced by the one that stayed."""
        writer = DumpWriter(path, {"arm": "cold"})
        row = (writer.text("r"), 0, 0, 0, schema.NONE, 0)
        for name in (row, (writer.text("empty"), *row[1:])):
            writer.append("requests", np.array([name], schema.REQUEST))
        rows = [(0, 1, 11, -1, 1), (0, 0, 10, -1, 1), (0, 1, 12, -1, 0)]
        writer.append("tokens", np.array(rows, schema.TOKEN))
        writer.close()
        with Dump.open(path) as dump:
            positions, chains, given = dump.chain(0)
            assert positions.tolist() == [0, 1]
            assert chains.tolist() == [10, 12]
            assert given.tolist() == [True, False]
            assert [len(column) for column in dump.chain(1)] == [0, 0, 0]


class TestPasses:
    def test_what_is_no_forward_is_told_apart(self, path: Path) -> None:
        """Closing records and what lies between passes have an index too."""
        with DumpBuilder(path) as builder:
            builder.commit(phase=Phase.PREFILL)
            builder.commit(phase=Phase.MIXED, flags=schema.PASS_BETWEEN)
            builder.commit(phase=Phase.DECODE)
        with Dump.open(path) as dump:
            assert len(dump.passes) == 4
            assert dump.model_passes.tolist() == [0, 2]
            dump.require_passes()

    @pytest.mark.parametrize("close", [False, True])
    def test_a_dump_without_passes_opens_and_says_so(self, path: Path, close: bool) -> None:
        """Its header can be shown; whoever needs passes gets the error."""
        writer = DumpWriter(path, {"arm": "cold"})
        if close:
            writer.close()
        with Dump.open(path) as dump:
            assert dump.arm == "cold"
            assert dump.closed == close
            with pytest.raises(EmptyDump, match="no finished pass"):
                dump.require_passes()


class TestFiles:
    @pytest.mark.parametrize("name", ["a b'\"$.h5", "ü-日本.h5", "-o", "x#1?.h5", b"\xff.h5"])
    def test_names_may_be_odd(self, tmp_path: Path, name: str | bytes) -> None:
        """Whatever the system allows."""
        path = tmp_path / os.fsdecode(name)
        toy_dump(path, [ToyRequest("r", TOKENS)])
        with Dump.open(path) as dump:
            assert dump.complete

    def test_a_dump_stays_readable_after_its_file_is_gone(self, path: Path) -> None:
        """A view that is open keeps its data."""
        toy_dump(path, [ToyRequest("r", TOKENS)])
        with Dump.open(path) as dump:
            path.unlink()
            assert len(dump.digests(0, dump.digest_count)) == dump.digest_count

    def test_nothing_is_written_to_the_file(self, path: Path) -> None:
        """It may lie on a read-only disk, and belong to a recorder that lives."""
        writer = DumpWriter(path, {"arm": "cold"})
        writer.commit(phase=Phase.DECODE)
        before = (path.read_bytes(), path.stat().st_mtime_ns)
        with Dump.open(path) as dump:
            assert len(dump.passes) == 1
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before

    def test_damaged_digests_are_told_from_different_ones(self, path: Path) -> None:
        """A bit that flipped on disk is no divergence."""
        toy_dump(path, [ToyRequest("r", TOKENS)])
        with Dump.open(path) as dump:
            digest = dump.digests(20, 1).tobytes()
        data = bytearray(path.read_bytes())
        data[data.index(digest)] ^= 1
        path.write_bytes(data)
        with Dump.open(path) as dump, pytest.raises(NotADump, match="root"):
            dump.check_roots()


class TestFolders:
    def test_a_file_is_a_list_of_one(self, path: Path) -> None:
        """Callers need not tell files from folders."""
        toy_dump(path, [ToyRequest("r", TOKENS)])
        assert [dump.path for dump in open_dumps(path)] == [path]

    def test_a_folder_holds_one_dump_for_each_rank(self, tmp_path: Path) -> None:
        """In order of rank, not of name; other files are left alone."""
        for name, rank in (("a.h5", 10), ("b.h5", 2)):
            DumpBuilder(tmp_path / name, header={"rank": rank}).close()
        (tmp_path / "notes.txt").write_text("hello")
        assert [dump.path.name for dump in open_dumps(tmp_path)] == ["b.h5", "a.h5"]

    @pytest.mark.parametrize("files", [{}, {"a.h5": 0, "b.h5": 0}])
    def test_a_folder_that_stands_for_no_dump_is_an_error(
        self, tmp_path: Path, files: dict[str, int]
    ) -> None:
        """Without dumps, or with two of one rank, there is nothing it could mean."""
        for name, rank in files.items():
            DumpBuilder(tmp_path / name, header={"rank": rank}).close()
        with pytest.raises(DumpError, match="the folder holds"):
            open_dumps(tmp_path)


class TestFormat1:
    """Events had neither place nor generation then."""

    def test_its_events_read_as_before(self, path: Path, tmp_path: Path) -> None:
        """What was written stays, what did not exist is unknown."""

        def narrow(tables: dict[str, Any]) -> None:
            names = list(schema.EVENT_1.names or ())
            tables["events"] = np.array(
                [tuple(row[name] for name in names) for row in tables["events"]], schema.EVENT_1
            )
            tables["sites"] = tables["sites"].astype(schema.SITE_1)

        with DumpBuilder(path) as builder:
            builder.site("embed:out")
            request = builder.request("r", TOKENS)
            builder.event(EventKind.TRUNCATE, request=request, value=3, place=(7, 2))
            builder.commit([(request, 0, 5)])
        with Dump.open(path) as dump:
            assert (dump.events[0].place, dump.events[0].generation) == (7, 2)
        with Dump.open(rewrite(path, tmp_path / "old.h5", narrow, version=1)) as dump:
            event = dump.events[0]
            assert not dump.sites[0].glue
        assert (event.value, event.place, event.generation) == (3, None, None)
