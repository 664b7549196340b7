"""Opens damaged dumps by the thousand and counts what comes of it.

Each damaged file is opened and read whole in a child process, so that a crash or a hang of the
HDF5 library is counted, not suffered. Anything but a readable dump or a `DumpError` is a failure.

    python benchmarks/fuzz_dump.py [--files 3000] [--seed 0] [--killed]
"""

import argparse
import collections
import multiprocessing
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from layerdiff.errors import DumpError
from layerdiff.format.reader import Dump
from layerdiff.format.superblock import lookup3
from layerdiff.testing import ToyRequest, toy_dump

SECONDS_ALLOWED = 20.0
MUTATIONS = ("flip", "byte", "burst", "zeros", "copy", "cut")


def main() -> int:
    """Count outcomes; 1 if any was a crash, a hang or another exception."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--killed", action="store_true", help="damage a killed recorder's dump")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = sound_dump(Path(folder, "whole.h5"), killed=arguments.killed)
        counts = fuzz(whole, arguments.files, arguments.seed, Path(folder))
    for outcome, count in counts.most_common():
        print(f"{count:7d}  {outcome}")
    return int(any(not outcome.startswith(("read", "refused")) for outcome in counts))


def sound_dump(path: Path, *, killed: bool) -> bytes:
    """The bytes of a small dump, closed well or as a killed recorder leaves it."""
    requests = [ToyRequest("fill", (1, 2, 3)), ToyRequest("r", (1, 2, 3, 4), takes="fill")]
    whole = bytearray(toy_dump(path, requests).read_bytes())
    if killed:
        whole[11] = 5
        whole[44:48] = lookup3(bytes(whole[:44])).to_bytes(4, "little")
    return bytes(whole)


def fuzz(whole: bytes, files: int, seed: int, folder: Path) -> collections.Counter[str]:
    """How many files came to what."""
    counts: collections.Counter[str] = collections.Counter()
    index = 0
    while index < files:
        parent, child = multiprocessing.Pipe()
        arguments = (whole, index, files, seed, folder, child)
        worker = multiprocessing.get_context("fork").Process(target=_work, args=arguments)
        worker.start()
        child.close()
        while index < files:
            if not parent.poll(SECONDS_ALLOWED):
                worker.kill()
                counts[f"HANG (file {index})"] += 1
                break
            try:
                counts[parent.recv()] += 1
            except EOFError:
                worker.join()
                counts[f"CRASH {worker.exitcode} (file {index})"] += 1
                break
            index += 1
        else:
            worker.join()
            break
        index += 1
    return counts


def mutate(whole: bytes, generator: random.Random) -> bytes:
    """*whole* with one accident, anywhere or where HDF5 keeps its own structures."""
    data = bytearray(whole)
    kind = generator.choice(MUTATIONS)
    place = generator.randrange(len(data) if generator.random() < 0.5 else 12000)
    length = generator.choice((1, 2, 4, 8, 64, 512))
    if kind == "flip":
        data[place] ^= 1 << generator.randrange(8)
    elif kind == "byte":
        data[place] = generator.randrange(256)
    elif kind == "burst":
        data[place : place + length] = generator.randbytes(length)
    elif kind == "zeros":
        data[place : place + length] = bytes(length)
    elif kind == "copy":
        other = generator.randrange(len(data))
        data[place : place + length] = whole[other : other + length]
    else:
        del data[place:]
    return bytes(data)


def read_whole(path: Path) -> None:
    """Touch everything that a command may touch."""
    with Dump.open(path) as dump:
        dump.digests(0, dump.digest_count)
        dump.sketches(0, dump.digest_count)
        for request in dump.requests:
            dump.chain(request.index)
        for index, observation in enumerate(dump.observations):
            dump.rowset(observation["rowset"])
            dump.dtype_name(index)
        repr((dump.events, dump.sites, dump.kernels, dump.header, dump.faults))


def _work(
    whole: bytes, first: int, files: int, seed: int, folder: Path, reports: Connection
) -> None:
    path = folder / f"damaged-{first}.h5"
    for index in range(first, files):
        path.write_bytes(mutate(whole, random.Random(f"{seed}/{index}")))
        started = time.monotonic()
        try:
            read_whole(path)
            outcome = "read"
        except DumpError as error:
            lines = len(str(error).splitlines())
            outcome = "refused" if lines == 1 else f"REFUSED IN {lines} LINES"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error} (file {index})"
        if time.monotonic() - started > 1:
            outcome += " (slow)"
        reports.send(outcome)


if __name__ == "__main__":
    raise SystemExit(main())
