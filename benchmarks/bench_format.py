"""What a dump costs: bytes on disk, and time against writing the same bytes to a plain file.

    python benchmarks/bench_format.py

Times are process CPU time, the median of some runs, and ratios within this run. Exits with 1 if a
size is over its limit.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind

LAYERS = 32
SITES_PER_LAYER = 6
PREFILL_ROWS = 512
PREFILL_PASSES = 20
DECODE_PASSES = 400
RUNS = 5
LIMITS = {"prefill, sketches": 29.0, "prefill": 8.5, "decode, sketches": 96.0}


def main() -> int:
    """Print sizes and rates; 1 if a size is over its limit."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, sketches in (("prefill, sketches", True), ("prefill", False)):
            path = Path(folder, "prefill.h5")
            prefill(path, sketches=sketches)
            size = path.stat().st_size
            rows = PREFILL_PASSES * LAYERS * SITES_PER_LAYER * PREFILL_ROWS
            failures += report(f"bytes a row, {name}", size / rows, LIMITS[name])
        path = Path(folder, "decode.h5")
        observations = decode(path)
        each = path.stat().st_size / observations
        failures += report("bytes an observation, decode", each, LIMITS["decode, sketches"])
        rates(Path(folder))
    return int(failures > 0)


def report(what: str, size: float, limit: float) -> bool:
    """Print a size; whether it is over its limit."""
    print(f"{what:45s} {size:8.2f}   at most {limit:g}")
    return size > limit


def rates(folder: Path) -> None:
    """Print times against those of a plain file, and what opening costs."""
    path = folder / "rates.h5"
    rows = PREFILL_PASSES * LAYERS * SITES_PER_LAYER * PREFILL_ROWS
    wrote = cpu(lambda: prefill(path, sketches=True))
    plain = cpu(lambda: write_plain(folder / "plain"))
    print(f"{'write, ratio to a plain file':45s} {wrote / plain:8.2f}   {rows / wrote:.2e} rows/s")
    read = cpu(lambda: read_all(path))
    plain = cpu(lambda: (folder / "plain").read_bytes())
    print(f"{'read, ratio to a plain file':45s} {read / plain:8.2f}   {rows / read:.2e} rows/s")
    print(f"{'open, ms':45s} {1e3 * cpu(lambda: Dump.open(path).close()):8.2f}")
    spent = cpu(lambda: decode(path)) / DECODE_PASSES
    print(f"{'a decode pass, all appends and commit, ms':45s} {1e3 * spent:8.2f}")


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU, the median of some runs."""
    spent = []
    for _ in range(RUNS):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return statistics.median(spent)


def begin(path: Path) -> tuple[DumpWriter, np.ndarray]:
    """A writer with one request and its sites, and an observation of each site."""
    writer = DumpWriter(path, {"arm": "cold"}, overwrite=True)
    text = writer.text
    request = (text("r0"), 0, 0, 0, schema.NONE, 0)
    writer.append("requests", np.array([request], schema.REQUEST))
    count = LAYERS * SITES_PER_LAYER
    sites = [
        (
            *(text(f"model.layers.{i // SITES_PER_LAYER}.block{i}:out"), i // SITES_PER_LAYER),
            *(text("full attention"), Role.TARGET, TensorKind.HIDDEN, Reach.ROW, 0),
            text(str(i - 1) if i else ""),
        )
        for i in range(count)
    ]
    writer.append("sites", np.array(sites, schema.SITE))
    kernel = (text("Attention.forward"), text('{"T_q": 512}'), text("modeling.py:1"))
    writer.append("kernels", np.array([kernel], schema.KERNEL))
    found = np.zeros(count, schema.OBSERVATION)
    found["site"], found["parts"] = np.arange(count), 1
    found["dtype"], found["shape"] = text("bfloat16"), text("4096")
    return writer, found


def prefill(path: Path, *, sketches: bool) -> None:
    """Passes of 512 rows over every site."""
    writer, found = begin(path)
    count = len(found) * PREFILL_ROWS
    digests = np.random.default_rng(0).integers(0, 2**64, count, dtype=np.uint64)
    rows = np.ones((count, schema.SKETCH_WIDTH), np.float32)
    for index in range(PREFILL_PASSES):
        begin_pass(writer, index, index * PREFILL_ROWS, PREFILL_ROWS)
        first = writer.append("digests", digests)
        if sketches:
            writer.append("sketches", rows)
        found["rows"] = PREFILL_ROWS
        found["first_digest"] = first + PREFILL_ROWS * np.arange(len(found))
        found["pass_index"], found["rowset"] = index, index
        writer.append("observations", found)
        writer.commit(phase=Phase.PREFILL, batch=1, width=PREFILL_ROWS, rowset=index)
    writer.close()


def decode(path: Path) -> int:
    """Passes of one token over every site; a third of the sites is carried from before, too.

    Returns:
        How many observations there are, the carried ones included.
    """
    writer, found = begin(path)
    digests = np.random.default_rng(0).integers(0, 2**64, len(found), dtype=np.uint64)
    rows = np.ones((len(found), schema.SKETCH_WIDTH), np.float32)
    carried = found[::3].copy()
    carried["moment"], carried["flags"] = Moment.IN, schema.FLAG_CARRIED
    carried["dtype"] = carried["shape"] = 0
    found["rows"] = 1
    for index in range(DECODE_PASSES):
        begin_pass(writer, 2 * index, 1000 + index, 1)
        spans = [(2 * index + 1, 0, 0, 1000 + index)]
        writer.append("spans", np.array(spans, schema.SPAN))
        found["first_digest"] = writer.append("digests", digests) + np.arange(len(found))
        writer.append("sketches", rows)
        for records, rowset in ((found, 2 * index), (carried, 2 * index + 1)):
            records["pass_index"], records["rowset"] = index, rowset
            writer.append("observations", records)
        writer.commit(phase=Phase.DECODE, batch=1, width=1, rowset=2 * index)
    writer.close()
    return DECODE_PASSES * (len(found) + len(carried))


def begin_pass(writer: DumpWriter, rowset: int, start: int, rows: int) -> None:
    """The tables that every pass adds to."""
    stop = start + rows
    writer.append("spans", np.array([(rowset, 0, start, stop)], schema.SPAN))
    tokens = np.zeros(rows, schema.TOKEN)
    tokens["position"] = np.arange(start, stop)
    writer.append("tokens", tokens)
    events = [
        (writer.pass_index, kind, 0, -1, 0, -1, start, stop, -1, schema.NO_TEXT)
        for kind in (EventKind.KV_READ, EventKind.KV_WRITE, EventKind.STATE_READ)
    ]
    writer.append("events", np.array(events, schema.EVENT))


def write_plain(path: Path) -> None:
    """As many bytes as a prefill dump has digests and sketches, a write a pass."""
    count = LAYERS * SITES_PER_LAYER * PREFILL_ROWS
    digests = np.random.default_rng(0).integers(0, 2**64, count, dtype=np.uint64)
    rows = np.ones((count, schema.SKETCH_WIDTH), np.float32)
    with path.open("wb", buffering=0) as file:
        for _ in range(PREFILL_PASSES):
            file.write(digests.data)
            file.write(rows.data)


def read_all(path: Path) -> None:
    """Every digest and sketch, in blocks."""
    block = 1 << 16
    with Dump.open(path) as dump:
        for first in range(0, dump.digest_count, block):
            count = min(block, dump.digest_count - first)
            dump.digests(first, count)
            dump.sketches(first, count)


if __name__ == "__main__":
    raise SystemExit(main())
