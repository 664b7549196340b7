"""What a dump says, as plain dictionaries that tests can look things up in."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from layerdiff.digest import row_digests
from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.vocabulary import EventKind, Moment

Cell = tuple[str, Moment, str, int]
"""(site, moment, request, position)."""


@dataclass(slots=True)
class Reading:
    """One dump, read whole."""

    dump: Dump
    cells: dict[Cell, list[tuple[int, ...]]] = field(default_factory=dict)
    """Digests of the parts, one entry each time the cell was hashed."""
    carried: set[Cell] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    """Sites that were hashed as a whole tensor."""

    @property
    def requests(self) -> dict[str, Any]:
        """Requests by name."""
        return {request.name: request for request in self.dump.requests}

    def texts(self, *kinds: EventKind) -> list[str]:
        """Texts of all events of some kinds."""
        return [event.text for event in self.dump.events if event.kind in kinds]

    def values(self, kind: EventKind) -> list[int | None]:
        """Values of all events of a kind."""
        return [event.value for event in self.dump.events if event.kind is kind]

    @property
    def troubles(self) -> list[str]:
        """All gaps, faults and warnings."""
        return self.texts(EventKind.GAP, EventKind.FAULT, EventKind.WARNING)

    def positions(self, site: str, moment: Moment, request: str) -> list[int]:
        """Where a site was hashed."""
        return sorted(p for s, m, r, p in self.cells if (s, m, r) == (site, moment, request))

    def carried_positions(self, site: str, request: str) -> list[int]:
        """Where a site was carried."""
        return sorted(p for s, _, r, p in self.carried if (s, r) == (site, request))


def read(path: Path) -> Reading:
    """The dump at *path*."""
    with Dump.open(path) as dump:
        reading = Reading(dump)
        names = [request.name for request in dump.requests]
        for record in dump.observations:
            site = dump.sites[record["site"]].name
            moment = Moment(int(record["moment"]))
            if record["flags"] & schema.FLAG_WHOLE_TENSOR:
                reading.whole.add(site)
                continue
            keys = [
                (site, moment, names[span["request"]], position)
                for span in dump.rowset(record["rowset"])
                for position in range(span["start"], span["stop"])
            ]
            if record["flags"] & schema.FLAG_CARRIED:
                reading.carried.update(keys)
                continue
            parts = int(record["parts"])
            digests = dump.digests(record["first_digest"], len(keys) * parts)
            for key, row in zip(keys, digests.reshape(-1, parts), strict=True):
                reading.cells.setdefault(key, []).append(tuple(map(int, row)))
        _ = dump.events, dump.gaps
    return reading


def expected(rows: torch.Tensor) -> tuple[int, ...]:
    """Digests of *rows* [parts, ...], computed apart from the recorder."""
    plain = rows.detach().contiguous()
    flat = plain.reshape(plain.shape[0], -1).view(torch.uint8).numpy()
    dtype = str(plain.dtype).removeprefix("torch.")
    shape = tuple(plain.shape[1:])
    return tuple(map(int, row_digests(np.ascontiguousarray(flat), dtype, shape)))
