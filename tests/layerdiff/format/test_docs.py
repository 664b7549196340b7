"""docs/format.md says what the code does."""

import re
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from layerdiff.format import schema
from layerdiff.vocabulary import EventKind, Moment, Phase, Reach, Role, TensorKind

DOCS = Path(__file__).parents[3] / "docs" / "format.md"
COLUMN = re.compile(r"^\| `(\w+)` \| ([uif]\d) \|", re.MULTILINE)
WORDS = {
    "phase": Phase,
    "role": Role,
    "moment": Moment,
    "reach": Reach,
    "tensor kind": TensorKind,
    "event kind": EventKind,
}

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the docs are not installed")


def sections() -> dict[str, str]:
    """The text below each table's heading."""
    parts = re.split(r"^#{2,3} (.+)$", DOCS.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("table", [*schema.TABLES, schema.PASSES])
def test_every_column_is_documented_in_order(table: str) -> None:
    """Name and type, for each table."""
    dtype = {**schema.TABLES, schema.PASSES: schema.PASS}[table]
    text = sections()[f"`{table}`"]
    if dtype.names is None:
        assert text.strip().startswith(f"`{dtype.base.str[1:]}`")
        return
    found = [(name, np.dtype(kind).newbyteorder("<")) for name, kind in COLUMN.findall(text)]
    assert found == [(name, dtype[name]) for name in dtype.names]


def test_tables_are_documented_in_the_order_of_writing() -> None:
    """A pass appends in this order."""
    listed = [name.strip("`") for name in sections() if name.startswith("`")]
    assert listed == [*schema.TABLES, schema.PASSES]


@pytest.mark.parametrize("word", WORDS)
def test_every_word_has_its_number(word: str) -> None:
    """The numbers are what other languages write."""
    members: type[IntEnum] = WORDS[word]
    (row,) = re.findall(rf"^\| {word} \| (.+) \|$", DOCS.read_text(), re.MULTILINE)
    expected = ", ".join(f"{member.value} {member.name.lower()}" for member in members)
    assert row == expected


def test_limits_are_those_of_the_code() -> None:
    """Numbers in prose age silently."""
    text = DOCS.read_text()
    assert f"at most {schema.MAX_TEXT_BYTES >> 20} MiB; the header has at most" in text.replace(
        "\n", " "
    )
    assert f"`{schema.FORMAT_NAME}`" in text
    assert f"`{schema.DIGEST_ALGORITHM}`" in text
    assert f"`{schema.NO_TEXT}` (`NO_TEXT`)" in text
    assert f"{schema.OBSERVATION.itemsize} bytes" in text
