"""A recorder that is killed at any moment leaves every pass that it finished."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from layerdiff.errors import NotADump
from layerdiff.format.reader import Dump

RECORDER = """
import os, sys
import numpy as np
from layerdiff.format import schema
from layerdiff.format.writer import DumpWriter
from layerdiff.vocabulary import Phase

generator = np.random.default_rng(int(sys.argv[2]))
writer = DumpWriter(sys.argv[1], {"arm": "cold"})
name = writer.text("r")
writer.append("requests", np.array([(name, 0, 0, 0, -1, 0)], schema.REQUEST))
writer.append("sites", np.array([(name, 0, name, 0, 0, 0, 0, schema.NO_TEXT)], schema.SITE))
dtype, shape, position = writer.text("float32"), writer.text("8"), 0
while True:
    rows = int(generator.choice([1, 1, 3, 700]))
    digests = generator.integers(0, 2**64, rows, dtype=np.uint64)
    first = writer.append("digests", digests)
    writer.append("sketches", np.ones((rows, 5), np.float32))
    index = writer.pass_index
    writer.append("spans", np.array([(index, 0, position, position + rows)], schema.SPAN))
    found = (index, 0, schema.NO_TEXT, index, first, 0, rows, 1, dtype, shape, 0, 0, 0, 0)
    writer.append("observations", np.array([found], schema.OBSERVATION))
    writer.append("elements", np.array([(index, 0, 0)], schema.ELEMENT))
    writer.text(f"pass {index}")
    writer.commit(phase=Phase.DECODE, rowset=index)
    position += rows
    line = f"{index} {int(np.bitwise_xor.reduce(digests)):016x}\\n"
    os.write(1, line.encode())
"""


def xor_by_pass(dump: Dump) -> list[int]:
    """The digests of each pass, folded."""
    return [
        int(np.bitwise_xor.reduce(dump.digests(record["first_digest"], record["rows"])))
        for record in dump.observations
    ]


@pytest.mark.parametrize("seed", range(20))
def test_every_reported_pass_survives_a_kill(tmp_path: Path, seed: int) -> None:
    """A pass is reported after its commit; its digests are then on disk."""
    path = tmp_path / "run.h5"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RECORDER, str(path), str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    first = child.stdout.readline()
    time.sleep(random.Random(seed).uniform(0, 0.35))
    child.send_signal(signal.SIGKILL)
    lines = [first, *child.stdout.read().splitlines()]
    child.wait()
    reported = [int(line.split()[1], 16) for line in lines]
    with Dump.open(path) as dump:
        found = xor_by_pass(dump)
        assert not dump.closed
        assert len(dump.model_passes) == len(found)
    assert found[: len(reported)] == reported
    # At most one more: finished, and killed before the report was out.
    assert len(found) <= len(reported) + 1


def test_a_recorder_killed_at_birth_leaves_a_dump_or_one_line(tmp_path: Path) -> None:
    """There is no moment at which a reader hangs or fails in another way."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for number in range(5):
        path = tmp_path / f"{number}.h5"
        child = subprocess.Popen(
            [sys.executable, "-c", RECORDER, str(path), "0"],
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        while not path.exists():
            pass
        time.sleep(number * 0.001)
        child.kill()
        child.wait()
        lines: list[str] = []
        try:
            Dump.open(path).close()
        except NotADump as error:
            lines = str(error).splitlines()
        assert len(lines) < 2


def test_a_dump_opens_while_its_recorder_writes(tmp_path: Path) -> None:
    """Each time it shows at least the passes that were reported before."""
    path = tmp_path / "run.h5"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RECORDER, str(path), "1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    reported = []
    try:
        for _ in range(30):
            for _ in range(10):
                reported.append(int(child.stdout.readline().split()[1], 16))
            with Dump.open(path) as dump:
                assert xor_by_pass(dump)[: len(reported)] == reported
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
