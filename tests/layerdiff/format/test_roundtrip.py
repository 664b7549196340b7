"""Whatever tables are written, the same are read back."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind

Tables = dict[str, np.ndarray[Any, Any]]

REQUESTS, SITES, KERNELS = 3, 4, 2
_IN_MEMORY = ("observations", "spans", "elements", "tokens", "rope", "pads", "events")

sizes = st.lists(st.integers(0, 300), max_size=5)


@settings(max_examples=60, deadline=None)
@given(sizes=sizes, seed=st.integers(0, 2**32), sketches=st.booleans(), names=st.sets(st.text()))
def test_tables_come_back_as_written(
    sizes: list[int], seed: int, sketches: bool, names: set[str]
) -> None:
    """However the rows are spread over passes, and at sizes around those of chunks."""
    generator = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.h5")
        writer = DumpWriter(path, {"arm": "cold"})
        texts = {name: writer.text(name) for name in names}
        written: list[Tables] = [begin(writer)]
        for size in sizes:
            written.append(random_pass(writer, generator, size, sketches))
            writer.commit(phase=Phase(int(generator.integers(len(Phase)))), width=size)
        writer.close()
        with Dump.open(path) as dump:
            check_same(dump, written, sketches)
            assert [dump.passes["width"][index] for index in dump.model_passes] == sizes
            for name, identifier in texts.items():
                if name.isprintable():
                    assert dump.text(identifier) == name


def begin(writer: DumpWriter) -> Tables:
    """What the other tables refer to."""
    text = writer.text("name")
    requests = np.array([(text, 0, row, 1, -1, 0) for row in range(REQUESTS)], schema.REQUEST)
    sites = np.array(
        [(text, -1, text, Role.TARGET, 0, Reach.ROW, 0, writer.text(""))] * SITES, schema.SITE
    )
    kernels = np.array([(text, writer.text("{}"), text)] * KERNELS, schema.KERNEL)
    for table, records in (("requests", requests), ("sites", sites), ("kernels", kernels)):
        writer.append(table, records)
    return {}


def random_pass(
    writer: DumpWriter, generator: np.random.Generator, size: int, sketches: bool
) -> Tables:
    """Random rows of every table; every reference is to something that is there."""
    tables = {name: random_records(generator, name, size) for name in _IN_MEMORY}
    tables["digests"] = generator.integers(0, 2**64, 3 * size, dtype=np.uint64)
    if sketches:
        tables["sketches"] = generator.standard_normal((3 * size, 5)).astype(np.float32)
    first = writer.append("digests", tables["digests"])
    spans = tables["spans"]
    index = writer.append("spans", spans[:0])
    spans["rowset"] = index + np.arange(size)
    spans["stop"] = spans["start"] + 1
    found = tables["observations"]
    found["rowset"] = spans["rowset"]
    found["rows"], found["parts"], found["flags"] = 1, 3, 0
    found["first_digest"] = first + 3 * np.arange(size)
    found["dtype"], found["shape"] = writer.text("float32"), writer.text("2,16")
    base = writer.append("observations", found[:0])
    tables["elements"]["observation"] = base + np.arange(size)
    for name, records in tables.items():
        if name == "events":
            records["source_pass"] = -1
        if name in ("observations", "rope", "pads", "events"):
            records["pass_index"] = writer.pass_index
        if name != "digests":
            writer.append(name, records)
    return tables


def random_records(generator: np.random.Generator, table: str, size: int) -> np.ndarray[Any, Any]:
    """Records of any bits, with ids brought into range."""
    dtype = schema.TABLES[table]
    raw = generator.integers(0, 256, (size, dtype.itemsize), dtype=np.uint8)
    records = raw.view(dtype).reshape(size)
    limits = {"site": SITES, "kernel": KERNELS, "request": REQUESTS, "source_request": REQUESTS}
    limits |= {"kind": len(TensorKind), "moment": len(Moment), "text": 3}
    if table == "events":
        limits["kind"] = len(EventKind)
    for column in records.dtype.names or ():
        if column in limits:
            records[column] = generator.integers(0, limits[column], size)
    if table in ("rope", "spans"):
        records["start"] //= 2
        records["stop"] = records["start"] + 3
    return records


def check_same(dump: Dump, written: list[Tables], sketches: bool) -> None:
    """Everything read is what was written, bit for bit."""
    for name in _IN_MEMORY:
        found = dump.event_records if name == "events" else getattr(dump, name)
        assert found.tobytes() == joined(written, name)
    assert dump.digests(0, dump.digest_count).tobytes() == joined(written, "digests")
    if sketches and dump.digest_count:
        found = dump.sketches(0, dump.digest_count)
        assert found is not None
        assert found.tobytes() == joined(written, "sketches")
    else:
        assert dump.sketches(0, dump.digest_count) is None
    assert (len(dump.requests), len(dump.sites), len(dump.kernels)) == (REQUESTS, SITES, KERNELS)


def joined(written: list[Tables], name: str) -> bytes:
    """The bytes of a table as they were written."""
    return b"".join(tables[name].tobytes() for tables in written if name in tables)
