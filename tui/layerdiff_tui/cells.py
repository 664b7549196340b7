"""Fetches one cell of a dump with everything recorded about it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.digest_store import DigestStore
from layerdiff.format import schema
from layerdiff.format.records import Kernel, Site
from layerdiff.lineage import Line
from layerdiff.segments import Cells, expand
from layerdiff.vocabulary import Moment


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell as recorded, the last time that it was seen."""

    site: Site
    moment: Moment
    position: int
    digests: NDArray[np.uint64]
    """uint64 [parts]."""
    norm: float | None
    """Of all parts together; None without sketches."""
    pass_index: int
    kernel: Kernel | None
    dtype: str
    shape: tuple[int, ...]
    """Of one part."""
    nan_count: int
    """In the whole observation."""
    all_zero: bool
    """The whole observation holds nothing but zero bits."""
    whole: bool
    """The digest is that of the whole tensor."""
    times: int
    """How often the position was seen at this site and moment."""


def fetch(
    line: Line, store: DigestStore, site: Site, moments: tuple[Moment, ...], position: int
) -> CellRecord | None:
    """The cell at a position, at the first of *moments* that has one."""
    for moment in moments:
        found = expand(line.looks(site, moment).clip(position, position + 1))
        if len(found):
            return _record(line, store, site, moment, found)
    return None


def _record(
    line: Line, store: DigestStore, site: Site, moment: Moment, found: Cells
) -> CellRecord:
    dump = line.dump
    last = found.take(slice(len(found) - 1, len(found)))
    index, parts = int(last.observation[0]), int(last.parts[0])
    record = dump.observations[index]
    kernel, flags = int(record["kernel"]), int(record["flags"])
    sketches = store.sketches(last.first, parts)
    return CellRecord(
        site,
        moment,
        int(last.position[0]),
        store.digests(last.first, parts)[0],
        None if sketches is None else float(np.sqrt((sketches[0, :, 0] ** 2).sum())),
        int(record["pass_index"]),
        dump.kernels[kernel] if kernel < len(dump.kernels) else None,
        dump.dtype_name(index),
        dump.shape(int(record["shape"])),
        int(record["nan_count"]),
        bool(flags & schema.FLAG_ALL_ZERO),
        bool(flags & schema.FLAG_WHOLE_TENSOR),
        len(found),
    )
