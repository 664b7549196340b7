"""Dumps that break the format: sound HDF5 files with one thing wrong."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from layerdiff.format import schema
from layerdiff.format.reader import Dump

Tables = dict[str, np.ndarray[Any, Any]]
Edit = Callable[[Tables], None]


def rewrite(source: Path, target: Path, edit: Edit, version: int = schema.FORMAT_VERSION) -> Path:
    """A sound HDF5 file with the tables of *source*, edited."""
    old: Any = h5py.File(source, "r")
    with old:
        tables: Tables = {name: old[name][()] for name in old}
    edit(tables)
    with h5py.File(target, "w", libver="v110") as file:
        mark(file, version)
        for name, rows in tables.items():
            tail = rows.shape[1:]
            limits, chunks = (None, *tail), (64, *(max(1, size) for size in tail))
            file.create_dataset(name, data=rows, maxshape=limits, chunks=chunks)
    return target


def mark(file: h5py.File, version: int = schema.FORMAT_VERSION) -> None:
    """Make *file* look like a dump."""
    file.attrs.create("format", np.bytes_(schema.FORMAT_NAME))
    file.attrs.create("version", version, dtype="<u4")


def put(table: str, column: str, value: int, row: int = 0) -> Edit:
    """Change one number."""

    def edit(tables: Tables) -> None:
        tables[table][column][row] = value

    return edit


def put_text(text: bytes, identifier: int = 0) -> Edit:
    """Change one text."""

    def edit(tables: Tables) -> None:
        heap, ends = tables["text_bytes"].tobytes(), tables["text_ends"]
        start = int(ends[identifier - 1]) if identifier else 0
        stop = int(ends[identifier])
        grown = len(text) - (stop - start)
        new = heap[:start] + text + heap[stop:]
        tables["text_bytes"] = np.frombuffer(new, np.uint8)
        ends[identifier:] += np.uint64(grown % 2**64)
        passes = tables["passes"]["text_bytes_end"]
        passes[:] = (passes.astype(np.int64) + grown).astype(np.uint64)

    return edit


def cycle(tables: Tables) -> None:
    """Make a site depend on itself."""
    sites = tables["sites"]
    own = [index for index, site in enumerate(sites) if site["inputs"] == sites["inputs"][1]]
    assert own
    put_text(b"1", int(sites["inputs"][1]))(tables)


def facts(tables: Tables) -> None:
    """Make a kernel's facts a list."""
    put_text(b"[1]", int(tables["kernels"]["facts"][0]))(tables)


def inputs(text: bytes) -> Edit:
    """Change the inputs of site 1."""

    def edit(tables: Tables) -> None:
        put_text(text, int(tables["sites"]["inputs"][1]))(tables)

    return edit


def shape(text: bytes) -> Edit:
    """Change a row shape."""

    def edit(tables: Tables) -> None:
        put_text(text, int(tables["observations"]["shape"][0]))(tables)

    return edit


def unordered(tables: Tables) -> None:
    """Put the last rowset first."""
    tables["spans"]["rowset"] = tables["spans"]["rowset"][::-1]


def falling(tables: Tables) -> None:
    """Swap the ends of two texts."""
    tables["text_ends"][2:4] = tables["text_ends"][3:1:-1].copy()


HUGE = 2**63
HEADERS = {
    "a list": b"[1, 2]",
    "no JSON": b"arm: cold",
    "nothing": b"",
    "a NaN": b'{"arm": "cold", "x": NaN}',
    "an infinity": b'{"arm": "cold", "x": -Infinity}',
    "a number beyond float": b'{"arm": "cold", "x": 1e999}',
    "a number of many digits": b'{"arm": "cold", "x": ' + b"9" * 9999 + b"}",
    "no arm": b"{}",
    "an arm that is no text": b'{"arm": 3}',
    "deep lists": b'{"arm": "cold", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"arm": "a", "x": ' + b'{"x": ' * 50 + b"1" + b"}" * 51,
    "invalid UTF-8": b'{"arm": "\xff"}',
    "half a character": b'{"arm": "cold"}\xe2\x82',
    "too much": b'{"arm": "' + b"x" * schema.MAX_HEADER_BYTES + b'"}',
}
EDITS: dict[str, Edit] = {
    **{f"a header that is {name}": put_text(text) for name, text in HEADERS.items()},
    "texts without end": lambda t: t["text_ends"].fill(HUGE),
    "text ends that fall": falling,
    "a text of absurd length": put_text(b"x" * (schema.MAX_TEXT_BYTES + 1), 20),
    "a text that is no UTF-8": put_text(b"\xc3(", 20),
    "no text at all": lambda t: t["passes"]["text_ends_end"].fill(0),
    "a pass that ends beyond its table": put("passes", "digests_end", HUGE, -1),
    "a pass that ends before the last": put("passes", "spans_end", 0, -1),
    "a phase without word": put("passes", "phase", 77),
    "a pass of no rowset": put("passes", "rowset", 12345),
    "sketches for some": put("passes", "sketches_end", 1),
    "a site that is not there": put("observations", "site", 999),
    "a pass that is not there": put("observations", "pass_index", 999),
    "a later pass": put("observations", "pass_index", 1),
    "a kernel that is not there": put("observations", "kernel", 999),
    "a rowset that is not there": put("observations", "rowset", 2**32 - 2),
    "digests that are not there": put("observations", "first_digest", HUGE),
    "digests of a later pass": put("observations", "first_digest", 400),
    "more rows than there are": put("observations", "rows", 2**32 - 1),
    "more parts than there are": put("observations", "parts", 2**16 - 1),
    "other rows than the rowset": put("observations", "rows", 2),
    "a dtype that is not there": put("observations", "dtype", 65535),
    "a kind without word": put("observations", "kind", 255),
    "a moment without word": put("observations", "moment", 255),
    "a carried row with digests": put("observations", "flags", schema.FLAG_CARRIED),
    "a whole tensor of rows": put("observations", "flags", schema.FLAG_WHOLE_TENSOR),
    "a shape that is none": shape(b"a,b"),
    "a shape of 4300 digits": shape(b"9" * 5000),
    "a span that ends before its start": put("spans", "stop", 0, -1),
    "a span of no request": put("spans", "request", 99),
    "spans out of order": unordered,
    "an absurd rowset": put("spans", "rowset", 2**32 - 2, -1),
    "a token of no request": put("tokens", "request", 99),
    "a request of no name": put("requests", "name", 2**31),
    "a request in no pass": put("requests", "pass_index", 99),
    "a request that takes from nobody": put("requests", "source", 99),
    "a negative request": put("requests", "source", -2),
    "a site of another role": put("sites", "role", 9),
    "a site of another reach": put("sites", "reach", 9),
    "a site of another kind": put("sites", "kind", 99),
    "a site with inputs that are no text": put("sites", "inputs", 2**31),
    "inputs that are no numbers": inputs(b"a"),
    "inputs that are not there": inputs(b"4294967295"),
    "inputs of many digits": inputs(b"1" * 5000),
    "negative inputs": inputs(b"-1"),
    "a site graph with a cycle": cycle,
    "kernel facts that are no object": facts,
    "an event of another kind": put("events", "kind", 2**32 - 1),
    "an event of no request": put("events", "request", 99),
    "an event of no site": put("events", "site", -7),
    "an event of no text": put("events", "text", 2**31),
    "an event in no pass": put("events", "pass_index", 2**31),
    "a table that is missing": lambda t: t.__delitem__("spans"),
    "a table of another type": lambda t: t.update(digests=t["digests"].astype(">u8")),
    "a table of floats": lambda t: t.update(digests=t["digests"].astype("<f8")),
    "a table of other columns": lambda t: t.update(spans=t["tokens"]),
    "a table of another rank": lambda t: t.update(digests=t["digests"][:, None]),
    "sketches of another width": lambda t: t.update(sketches=t["sketches"][:, :4]),
}


def random_edit(generator: random.Random) -> Edit:
    """Put a random number anywhere."""

    def edit(tables: Tables) -> None:
        table = generator.choice([name for name, rows in tables.items() if len(rows)])
        rows = tables[table]
        raw = rows.view(np.uint8).reshape(-1)
        place = generator.randrange(len(raw))
        length = generator.choice((1, 4, 8))
        value = generator.choice((0, 1, 127, 255, generator.randrange(256)))
        raw[place : place + length] = value

    return edit


def claim(file: Any, table: str, rows: int) -> None:
    """Give a table as many rows, of which none is stored."""
    dtype = file[table].dtype
    del file[table]
    file.create_dataset(table, (rows,), dtype, maxshape=(None,), chunks=(64,))


def use(dump: Dump) -> None:
    """Ask for everything."""
    dump.digests(0, dump.digest_count)
    dump.sketches(0, dump.digest_count)
    for request in dump.requests:
        dump.chain(request.index)
    for index, record in enumerate(dump.observations):
        dump.rowset(record["rowset"])
        dump.dtype_name(index)
        dump.digests(record["first_digest"], int(record["rows"]) * int(record["parts"]))
        if record["rows"]:
            dump.shape(record["shape"])
    repr((dump.events, dump.sites, dump.kernels, dump.header, dump.faults, dump.gaps))
