"""Reads a dump: whole while its recorder lives, after it was killed, and when it ended well.

Small tables are checked and held in memory; digests and sketches are read where asked for.
"""

import contextlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from layerdiff.digest import root_digest
from layerdiff.errors import EmptyDump, NotADump
from layerdiff.format import decode, schema
from layerdiff.format.contents import Contents, open_contents
from layerdiff.format.damage import Damage, reason
from layerdiff.format.records import Event, Kernel, Request, Site
from layerdiff.format.served import own_runs, served_requests
from layerdiff.format.storage import StoredTable
from layerdiff.vocabulary import EventKind

__all__ = ["Dump", "Event", "Kernel", "Request", "Site", "open_dumps"]

Array = np.ndarray[Any, Any]


class Dump:
    """One dump, up to the last pass that was finished when it was opened.

    A context manager. Every reference in its tables has been checked, so ids can be used as
    indices. Texts have their control characters escaped.
    """

    def __init__(self, path: Path, contents: Contents) -> None:
        tables, texts = contents.tables, contents.texts
        self._contents: Final = contents
        self.path: Final = path
        self.header: Final[Mapping[str, Any]] = contents.header
        """Facts about the run."""
        self.passes: Final = contents.passes
        """`schema.PASS` records by pass index, the closing one included."""
        self.observations: Final = tables["observations"]
        """`schema.OBSERVATION` records, in order of observing."""
        self.spans: Final = tables["spans"]
        """`schema.SPAN` records, in order of rowset."""
        self.tokens: Final = tables["tokens"]
        """`schema.TOKEN` records, in order of writing."""
        self.elements: Final = tables["elements"]
        """`schema.ELEMENT` records."""
        self.rope: Final = tables["rope"]
        """`schema.ROPE` records."""
        self.pads: Final = tables["pads"]
        """`schema.PADS` records."""
        self.event_records: Final = tables["events"]
        """`schema.EVENT` records; `events` has them with their text."""
        self.rowset_sizes: Final = contents.rowset_sizes
        """Rows of each rowset, int64 [rowsets]."""
        self.digest_count: Final = contents.digests.rows
        """Committed digests; there are as many sketches, or none."""
        self.has_sketches: Final = contents.sketches.rows > 0
        self.sites: Final = decode.sites(tables["sites"], texts)
        self.own_runs: Final = own_runs(self.passes, self.spans, self.observations, self.sites)
        """`schema.SPAN` records: positions that went through the target, in order of time."""
        self.requests: Final = served_requests(
            decode.requests(tables["requests"], texts), self.own_runs
        )
        self.kernels: Final = decode.kernels(tables["kernels"], texts)

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open the dump at *path*.

        Raises:
            NotADump: It is missing, foreign, truncated or damaged.
            UnsupportedFormat: A newer layerdiff wrote it.
        """
        path = Path(path)
        contents = open_contents(path)
        try:
            return cls(path, contents)
        except Damage as damage:
            contents.file.close()
            raise NotADump(path, str(damage)) from None

    def close(self) -> None:
        """Let go of the file; what is in memory stays usable."""
        self._contents.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def arm(self) -> str:
        """The condition under which the run was made, such as ``cold``."""
        return str(self.header["arm"])

    @property
    def closed(self) -> bool:
        """Whether the recorder came to a clean end; if not it lives on or was killed."""
        return bool(len(self.passes) and self.passes["flags"][-1] & schema.PASS_CLOSING)

    @property
    def complete(self) -> bool:
        """Whether the recorder came to a clean end and never failed."""
        return self.closed and not self.faults

    @cached_property
    def model_passes(self) -> Array:
        """Indices of the passes that are forwards of the model, int64."""
        no_forward = schema.PASS_CLOSING | schema.PASS_BETWEEN
        return np.flatnonzero((self.passes["flags"] & no_forward) == 0)

    def require_passes(self) -> None:
        """Raise `EmptyDump` if no forward of the model was finished."""
        if not len(self.model_passes):
            raise EmptyDump(self.path)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All events, in order of writing."""
        return decode.events(self.event_records, self._contents.texts)

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """What failed in the recorder itself; any makes the dump incomplete."""
        return self._event_texts(EventKind.FAULT)

    @cached_property
    def gaps(self) -> tuple[str, ...]:
        """What the recorder says that it did not observe."""
        return self._event_texts(EventKind.GAP)

    def _event_texts(self, kind: EventKind) -> tuple[str, ...]:
        chosen = self.event_records["text"][self.event_records["kind"] == kind]
        return tuple(self.text(identifier) for identifier in chosen.tolist())

    def text(self, identifier: int) -> str:
        """The interned text; `schema.NO_TEXT` is empty."""
        return self._contents.texts(int(identifier))

    def dtype_name(self, observation: int) -> str:
        """The dtype of the observation with that index, such as ``bfloat16``; carried: empty."""
        record = self.observations[observation]
        return self.text(record["dtype"]) if record["rows"] else ""

    def shape(self, identifier: int) -> tuple[int, ...]:
        """The row shape that `observations.shape` names; () is one number a row."""
        text = self._contents.texts.raw(int(identifier))
        return tuple(int(size) for size in text.split(",")) if text else ()

    def rowset(self, identifier: int) -> Array:
        """The spans of a rowset in order, `schema.SPAN` records; none for NO_TEXT."""
        if identifier == schema.NO_TEXT:
            return self.spans[:0]
        bounds = self._contents.rowset_bounds
        return self.spans[bounds[identifier] : bounds[identifier + 1]]

    def rowset_rows(self, identifier: int) -> int:
        """How many rows a rowset has."""
        return 0 if identifier == schema.NO_TEXT else int(self.rowset_sizes[identifier])

    def observations_of(self, pass_index: int) -> slice:
        """Where in `observations` lies what was committed with a pass."""
        ends = self.passes["observations_end"]
        return slice(int(ends[pass_index - 1]) if pass_index else 0, int(ends[pass_index]))

    def chain(self, request: int) -> tuple[Array, Array, Array]:
        """The token chain of a request in order of position.

        Where a position was recorded more than once, the last record counts.

        Returns:
            Positions uint32 [n], chain digests uint64 [n], and whether each token was given
            by the user, bool [n].
        """
        order, bounds = self._token_order
        mine = self.tokens[order[bounds[request] : bounds[request + 1]]]
        if len(mine):
            mine = mine[np.append(np.diff(mine["position"]) != 0, True)]
        return mine["position"], mine["chain"], (mine["flags"] & schema.TOKEN_GIVEN) > 0

    @cached_property
    def _token_order(self) -> tuple[Array, Array]:
        order = np.lexsort((self.tokens["position"], self.tokens["request"]))
        requests = self.tokens["request"][order]
        return order, np.searchsorted(requests, np.arange(len(self.requests) + 1))

    def digests(self, first: int, count: int) -> Array:
        """Digests [first, first + count), uint64.

        Raises:
            NotADump: The file can no longer be read.
        """
        return self._read(self._contents.digests, first, count)

    def sketches(self, first: int, count: int) -> Array | None:
        """Sketches of the same rows, float32 [count, 5]; None if none were taken.

        Raises:
            NotADump: The file can no longer be read.
        """
        return self._read(self._contents.sketches, first, count) if self.has_sketches else None

    def check_roots(self, observations: Iterable[int] | None = None) -> None:
        """Make sure that digests on disk are as they were written, as their roots tell.

        A report should not call a difference what is a damaged file.

        Args:
            observations: Indices; all if not given.

        Raises:
            NotADump: Digests and root of an observation disagree.
        """
        for index in range(len(self.observations)) if observations is None else observations:
            record = self.observations[index]
            count = int(record["rows"]) * int(record["parts"])
            if (
                count
                and root_digest(self.digests(record["first_digest"], count)) != record["root"]
            ):
                problem = f"is damaged: the digests of observation {index} do not match their root"
                raise NotADump(self.path, f"{problem}; record again")

    def _read(self, table: StoredTable, first: int, count: int) -> Array:
        try:
            return table.read(self._contents.file, int(first), int(count))
        except OSError as error:
            raise NotADump(self.path, f"cannot be read any more: {reason(error)}") from None


def open_dumps(path: Path | str) -> list[Dump]:
    """The dump at *path*, or one for each rank in a folder, in order of rank.

    Raises:
        DumpError: A file is no dump, or a folder holds none, or several of one rank.
    """
    path = Path(path)
    if not path.is_dir():
        return [Dump.open(path)]
    files = sorted(file for file in path.glob("*.h5") if not file.name.startswith("."))
    if not files:
        raise NotADump(path, "the folder holds no dump (*.h5); name a dump file")
    with contextlib.ExitStack() as stack:
        dumps = [stack.enter_context(Dump.open(file)) for file in files]
        if len({_rank(dump) for dump in dumps}) < len(dumps):
            raise NotADump(path, "the folder holds several dumps of one rank; name one of them")
        stack.pop_all()
    return sorted(dumps, key=_rank)


def _rank(dump: Dump) -> int:
    rank = dump.header.get("rank")
    return rank if isinstance(rank, int) else 0
