"""Every reference in a dump, checked once when it is opened, in whole columns."""

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from layerdiff.format import schema
from layerdiff.format.damage import Broken
from layerdiff.format.text import Texts
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind

Array = np.ndarray[Any, Any]

_SHAPE: Final = re.compile(r"(\d{1,9}(,\d{1,9}){0,7})?")


def check_passes(passes: Array, lengths: Mapping[str, int]) -> None:
    """Ends must rise from record to record and stay inside their tables."""
    _in_vocabulary("passes.phase", passes["phase"], Phase)
    for name in schema.TABLES:
        ends = passes[f"{name}_end"]
        if bool((ends[1:] < ends[:-1]).any()):
            raise Broken(f"the end of table {name} falls between two passes")
        if len(ends) and int(ends[-1]) > lengths[name]:
            raise Broken(f"table {name} holds {lengths[name]} rows of {int(ends[-1])}")
    sketches = passes["sketches_end"]
    if bool(((sketches != 0) & (sketches != passes["digests_end"])).any()):
        raise Broken("there are sketches for some digests only")


def check_tables(passes: Array, tables: Mapping[str, Array], texts: Texts, sizes: Array) -> None:
    """Every id in every table must name something that is there.

    Args:
        passes: The commit records.
        tables: All tables but text, digests and sketches.
        texts: The interned texts.
        sizes: Rows of each rowset, uint64 [rowsets].
    """
    count = {name: len(records) for name, records in tables.items()}
    count |= {"passes": len(passes), "text": len(texts), "rowset": len(sizes)}
    _ids("passes.rowset", passes["rowset"], count["rowset"], optional=True)
    for table, column, target, optional in _REFERENCES:
        _ids(f"{table}.{column}", tables[table][column], count[target], optional=optional)
    for table, column, words in _WORDS:
        _in_vocabulary(f"{table}.{column}", tables[table][column], words)
    for table, column, target in _SIGNED:
        ids = tables[table][column]
        if bool(((ids < schema.NONE) | (ids >= count[target])).any()):
            raise Broken(f"{table}.{column} names a row that is not there")
    for table in ("spans", "rope"):
        if bool((tables[table]["stop"] < tables[table]["start"]).any()):
            raise Broken(f"a range in table {table} ends before it starts")
    _check_observations(passes, tables["observations"], texts, sizes)


_REFERENCES: Final = (
    ("observations", "pass_index", "passes", False),
    ("observations", "site", "sites", False),
    ("observations", "kernel", "kernels", True),
    ("observations", "rowset", "rowset", True),
    ("observations", "dtype", "text", False),
    ("observations", "shape", "text", False),
    ("spans", "request", "requests", False),
    ("elements", "observation", "observations", False),
    ("tokens", "request", "requests", False),
    ("requests", "name", "text", False),
    ("requests", "pass_index", "passes", False),
    ("sites", "name", "text", False),
    ("sites", "layer_kind", "text", True),
    ("sites", "inputs", "text", True),
    ("kernels", "name", "text", False),
    ("kernels", "facts", "text", True),
    ("kernels", "source", "text", True),
    ("rope", "pass_index", "passes", False),
    ("rope", "request", "requests", False),
    ("pads", "pass_index", "passes", False),
    ("pads", "request", "requests", False),
    ("events", "pass_index", "passes", False),
    ("events", "text", "text", True),
)
"""Table, column, what it counts in, and whether NO_TEXT stands for nothing."""

_SIGNED: Final = (
    ("requests", "source", "requests"),
    ("events", "request", "requests"),
    ("events", "site", "sites"),
    ("events", "source_request", "requests"),
    ("events", "source_pass", "passes"),
)
_WORDS: Final = (
    ("observations", "kind", TensorKind),
    ("observations", "moment", Moment),
    ("sites", "kind", TensorKind),
    ("sites", "role", Role),
    ("sites", "reach", Reach),
    ("events", "kind", EventKind),
)


def _ids(what: str, ids: Array, count: int, *, optional: bool) -> None:
    bad = ids >= count
    if optional:
        bad &= ids != schema.NO_TEXT
    if bool(bad.any()):
        raise Broken(f"{what} names {int(ids[bad][0])}, of which there are {count}")


def _in_vocabulary(what: str, numbers: Array, words: type) -> None:
    if len(numbers) and int(numbers.max()) >= len(words):  # type: ignore[arg-type]
        raise Broken(f"{what} has no word for {int(numbers.max())}; a newer layerdiff may")


def _check_observations(passes: Array, observations: Array, texts: Texts, sizes: Array) -> None:
    committed = np.diff(passes["observations_end"], prepend=np.uint64(0)).astype(np.int64)
    owner = np.repeat(np.arange(len(passes)), committed)
    if bool((observations["pass_index"] > owner).any()):
        raise Broken("an observation names a pass after the one that committed it")
    cells = observations["rows"].astype(np.uint64) * observations["parts"]
    first = observations["first_digest"]
    limit = passes["digests_end"][owner]
    if bool(((cells > limit) | (first > limit - np.minimum(cells, limit)))[cells > 0].any()):
        raise Broken("an observation reaches beyond the digests of its pass")
    _check_rows(observations, sizes)
    for identifier in np.unique(observations["shape"][observations["rows"] > 0]):
        if not _SHAPE.fullmatch(texts.raw(int(identifier))):
            raise Broken(f"text {int(identifier)} is no row shape")


def _check_rows(observations: Array, sizes: Array) -> None:
    flags, rows = observations["flags"], observations["rows"]
    if bool((rows[(flags & schema.FLAG_CARRIED) > 0] > 0).any()):
        raise Broken("a carried observation has digests")
    if bool((rows[(flags & schema.FLAG_WHOLE_TENSOR) > 0] > 1).any()):
        raise Broken("a whole-tensor observation has more than one row")
    plain = (flags & (schema.FLAG_CARRIED | schema.FLAG_WHOLE_TENSOR)) == 0
    plain &= observations["rowset"] != schema.NO_TEXT
    if bool((sizes[observations["rowset"][plain]] != rows[plain]).any()):
        raise Broken("an observation has another number of rows than its rowset")


def rowset_bounds(spans: Array) -> Array:
    """Where each rowset starts in *spans*, int64 [rowsets + 1]."""
    rowsets = spans["rowset"]
    if bool((rowsets[1:] < rowsets[:-1]).any()):
        raise Broken("the spans are not in order of rowset")
    count = int(rowsets[-1]) + 1 if len(rowsets) else 0
    if count > 2 * len(rowsets) + 1024:
        raise Broken("most rowsets have no span")
    return np.searchsorted(rowsets, np.arange(count + 1))
