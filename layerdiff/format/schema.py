"""The tables of dump format 2: names, columns and limits, and nothing that reads or writes.

docs/format.md says what each column means. Everything is little-endian and unpadded.
"""

from typing import Final

import numpy as np

FORMAT_NAME: Final = "layerdiff.dump"
FORMAT_VERSION: Final = 2
OLDEST_VERSION: Final = 1
"""Format 1 has no places and generations in its events, and no flags of sites."""
DIGEST_ALGORITHM: Final = "xxh3-64/row/1"

SKETCH_WIDTH: Final = 5
"""Floats per row: the Euclidean norm and 4 sign projections."""

NO_TEXT: Final = 0xFFFFFFFF
"""A text id that stands for nothing."""
NONE: Final = -1
"""A signed column's value for unknown or not applicable."""

OBSERVATION = np.dtype(
    [
        ("pass_index", "<u4"),
        ("site", "<u4"),
        ("kernel", "<u4"),
        ("rowset", "<u4"),
        ("first_digest", "<u8"),
        ("root", "<u8"),
        ("rows", "<u4"),
        ("parts", "<u2"),
        ("dtype", "<u2"),
        ("shape", "<u4"),
        ("nan_count", "<u4"),
        ("kind", "u1"),
        ("moment", "u1"),
        ("flags", "<u2"),
    ]
)
FLAG_ALL_ZERO: Final = 1
FLAG_CARRIED: Final = 2
FLAG_WHOLE_TENSOR: Final = 4
FLAG_NAN_UNKNOWN: Final = 8

SPAN = np.dtype([("rowset", "<u4"), ("request", "<u4"), ("start", "<u4"), ("stop", "<u4")])
ELEMENT = np.dtype([("observation", "<u8"), ("part", "<u4"), ("digest", "<u8")])
TOKEN = np.dtype(
    [
        ("request", "<u4"),
        ("position", "<u4"),
        ("chain", "<u8"),
        ("token", "<i4"),
        ("flags", "<u4"),
    ]
)
TOKEN_GIVEN: Final = 1

REQUEST = np.dtype(
    [
        ("name", "<u4"),
        ("pass_index", "<u4"),
        ("batch_row", "<u4"),
        ("flags", "<u4"),
        ("source", "<i4"),
        ("hit", "<i8"),
    ]
)
REQUEST_EXPLICIT: Final = 1

SITE = np.dtype(
    [
        ("name", "<u4"),
        ("layer_index", "<i4"),
        ("layer_kind", "<u4"),
        ("role", "u1"),
        ("kind", "u1"),
        ("reach", "u1"),
        ("flags", "u1"),
        ("inputs", "<u4"),
    ]
)
SITE_GLUE: Final = 1
"""Hands on or adds up its inputs: no kernel of its own lies in between."""
SITE_1 = np.dtype([("pad" if name == "flags" else name, SITE[name]) for name in SITE.names or ()])
KERNEL = np.dtype([("name", "<u4"), ("facts", "<u4"), ("source", "<u4")])

ROPE = np.dtype(
    [
        ("pass_index", "<u4"),
        ("request", "<u4"),
        ("start", "<u4"),
        ("stop", "<u4"),
        ("first", "<i8"),
        ("step", "<i8"),
    ]
)
PADS = np.dtype([("pass_index", "<u4"), ("request", "<u4"), ("before", "<u4"), ("after", "<u4")])

EVENT = np.dtype(
    [
        ("pass_index", "<u4"),
        ("kind", "<u4"),
        ("request", "<i4"),
        ("site", "<i4"),
        ("source_request", "<i4"),
        ("source_pass", "<i4"),
        ("start", "<i8"),
        ("stop", "<i8"),
        ("value", "<i8"),
        ("text", "<u4"),
        ("place", "<i8"),
        ("generation", "<i8"),
    ]
)
EVENT_1 = np.dtype([(name, EVENT[name]) for name in (EVENT.names or ())[:-2]])

TABLES: Final[dict[str, np.dtype]] = {
    "text_bytes": np.dtype("u1"),
    "text_ends": np.dtype("<u8"),
    "digests": np.dtype("<u8"),
    "sketches": np.dtype(("<f4", (SKETCH_WIDTH,))),
    "elements": ELEMENT,
    "observations": OBSERVATION,
    "spans": SPAN,
    "tokens": TOKEN,
    "requests": REQUEST,
    "sites": SITE,
    "kernels": KERNEL,
    "rope": ROPE,
    "pads": PADS,
    "events": EVENT,
}
"""Append-only tables, in the order in which a pass is flushed."""

TABLES_1: Final = {**TABLES, "events": EVENT_1, "sites": SITE_1}

PASS = np.dtype(
    [
        ("phase", "<u4"),
        ("flags", "<u4"),
        ("batch", "<u4"),
        ("width", "<u4"),
        ("rowset", "<u4"),
        ("pad", "<u4"),
    ]
    + [(f"{name}_end", "<u8") for name in TABLES]
)
"""The commit record: written last, it names how far every table is valid."""
PASS_CLOSING: Final = 1
"""No pass of the model: what was written after the last one, when the recorder was closed."""
PASS_FAILED: Final = 2
"""The model raised inside this pass."""

PASS_BETWEEN: Final = 4
"""No pass of the model either: what was found between two passes, such as a request's end."""

PASSES: Final = "passes"
CHUNK_ROWS: Final = {"digests": 8192, "sketches": 2048, "text_bytes": 8192, PASSES: 64}
DEFAULT_CHUNK_ROWS: Final = 256
"""Small chunks: every commit writes each touched table's last chunk anew."""

FORMAT_ATTRIBUTE: Final = "format"
VERSION_ATTRIBUTE: Final = "version"
MAX_TEXT_BYTES: Final = 1 << 20
MAX_HEADER_BYTES: Final = 1 << 22
MAX_TEXTS_IN_DTYPE: Final = 1 << 16
"""Text ids of dtype names fit the two bytes of `observations.dtype`."""
