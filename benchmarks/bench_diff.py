"""``diff`` of two dumps of ten million rows with one differing row: CPU time and memory.

Run: python benchmarks/bench_diff.py [ROWS]     (the target: 1 s of CPU, 300 MB)
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from layerdiff.digest import CHAIN_START, chain_tokens, root_digest
from layerdiff.format import schema
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import Moment, Phase, Reach, Role, TensorKind

LAYERS, CHUNK = 64, 512


def write(path: Path, rows: int, differing: bool) -> None:
    """A dump of *rows* rows: layers in sequence, passes of 512 tokens of one request."""
    passes = rows // (LAYERS * CHUNK)
    rng = np.random.default_rng(0)
    with_difference = (passes // 2, LAYERS // 2)
    writer = DumpWriter(path, {"arm": "cold"}, overwrite=True)
    text = writer.text
    request = (text("r1"), 0, 0, schema.REQUEST_EXPLICIT, -1, 0)
    writer.append("requests", np.array([request], schema.REQUEST))
    tokens = np.zeros(passes * CHUNK, schema.TOKEN)
    tokens["position"] = np.arange(len(tokens))
    tokens["chain"] = chain_tokens(CHAIN_START, rng.integers(0, 1000, len(tokens)))
    tokens["token"], tokens["flags"] = -1, schema.TOKEN_GIVEN
    writer.append("tokens", tokens)
    for layer in range(LAYERS):
        inputs = text(str(layer - 1)) if layer else text("")
        kind = (Role.TARGET, TensorKind.HIDDEN, Reach.PREFIX, 0)
        site = (text(f"model.layers.{layer}:out"), layer, text("full attention"), *kind, inputs)
        writer.append("sites", np.array([site], schema.SITE))
    for index in range(passes):
        span = (index, 0, index * CHUNK, (index + 1) * CHUNK)
        writer.append("spans", np.array([span], schema.SPAN))
        observations = np.zeros(LAYERS, schema.OBSERVATION)
        for layer in range(LAYERS):
            digests = rng.integers(0, 2**63, CHUNK).astype(np.uint64)
            if differing and (index, layer) == with_difference:
                digests[7] ^= np.uint64(1)
            observations[layer] = (
                *(index, layer, schema.NO_TEXT, index),
                *(writer.append("digests", digests), root_digest(digests), CHUNK, 1),
                *(text("bfloat16"), text("2048"), 0, TensorKind.HIDDEN, Moment.COMPUTED, 0),
            )
        writer.append("observations", observations)
        writer.commit(phase=Phase.PREFILL, batch=1, width=CHUNK, rowset=index)
    writer.close()


def measure(baseline: str, candidate: str) -> None:
    """Runs in a process of its own: what ``layerdiff diff`` costs beside importing it."""
    from layerdiff.commands.diff import compare_files

    before_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = time.process_time()
    report = compare_files(baseline, candidate).report
    spent = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = report.origins[0]
    print(
        f"{report.coverage.compared:,} cells, {report.coverage.differing} differ, first at layer "
        f"{found.layer_index} token {found.position}: {spent:.2f} s CPU, "
        f"{peak / 1024:.0f} MB at most ({before_memory / 1024:.0f} MB before)"
    )


def main() -> None:
    """Writes two dumps and compares them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=10_000_000)
    parser.add_argument("--measure", nargs=2, metavar="DUMP", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(*arguments.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("cold.h5", "warm.h5")]
        for path, differing in zip(paths, (False, True), strict=True):
            write(path, arguments.rows, differing)
        command = [sys.executable, __file__, "--measure", *map(str, paths)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
