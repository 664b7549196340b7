"""What the detail pane says: plain lines, and the facts that a pair and a single dump share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.format.records import Site
from layerdiff.lineage import Line, Steps
from layerdiff.vocabulary import Moment, Phase
from layerdiff_tui.marks import Sign, Tone
from layerdiff_tui.rows import Column, short_names

_PARTS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: a label and what there is to say."""

    label: str
    text: str
    tone: Tone | None = None


@dataclass(frozen=True, slots=True)
class Sides:
    """One line that sets both arms side by side."""

    label: str
    baseline: str
    candidate: str

    @property
    def same(self) -> bool:
        """Whether the arms say the same."""
        return self.baseline == self.candidate


@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a section."""

    text: str


Lines = list[Fact | Sides | Heading]


@dataclass(frozen=True, slots=True)
class Detail:
    """All that the pane shows of one cell."""

    title: str
    sign: Sign
    lines: tuple[Fact | Sides | Heading, ...]


def mark_fact(sign: Sign) -> Fact:
    """What a cell came to."""
    return Fact("mark", f"{sign.sign} {sign.word}: {sign.meaning}", sign.tone)


def site_lines(columns: Sequence[Column], position: int, signs: tuple[Sign, ...]) -> Lines:
    """How all the sites are that a row stands for, at one position."""
    names = short_names([column.site for column in columns])
    lines: Lines = [Heading(f"sites of this row at {position}")]
    for column, name in zip(columns, names, strict=True):
        sign = signs[int(column.marks[position])]
        cached = column.site.kind.is_kv or column.site.kind.is_state
        label = f"{name} {column.moment.word}" if cached else name
        if sign.sign.strip():
            lines.append(Fact(label, f"{sign.sign} {sign.word}"))
    return lines


def unreadable(error: Exception) -> Detail:
    """Says that a cell cannot be read, and why."""
    sign = Sign("!", Tone.UNPAIRED, "error", "this cell cannot be read")
    return Detail("cannot be read", sign, (Fact("error", str(error), sign.tone),))


def position_words(site: Site, position: int) -> str:
    """What a position means at a site."""
    if site.kind.is_state:
        return f"{position} (has consumed {position} tokens)"
    return str(position)


def span_words(start: int, stop: int) -> str:
    """The positions of a bin."""
    return f"[{start}, {stop})"


def moment_words(moment: Moment, *, state: bool) -> str:
    """A moment as the tables of the pane name it."""
    if moment is Moment.OUT and not state:
        return "at the end"
    return {Moment.COMPUTED: "computed", Moment.IN: "as read", Moment.OUT: "as left"}.get(
        moment, moment.word
    )


def layer_words(site: Site) -> str:
    """The layer with its kind."""
    if site.layer_index is None:
        return "outside the layers"
    drafter = "drafter " if site.role.word == "drafter" else ""
    kind = f" ({site.layer_kind})" if site.layer_kind else ""
    return f"{drafter}{site.layer_index}{kind}"


def hex_digest(digests: NDArray[np.uint64] | None, part: int = 0) -> str:
    """One part's digest, 16 hexadecimal digits, and how many parts there are."""
    if digests is None:
        return "not observed"
    more = f" (part {part} of {len(digests)})" if len(digests) > 1 else ""
    return f"{int(digests[part]):016x}{more}"


def parts_words(parts: NDArray[np.intp], total: int) -> str:
    """Which of a state's parts are meant."""
    names = ", ".join(str(part) for part in parts[:_PARTS_SHOWN].tolist())
    more = ", ..." if len(parts) > _PARTS_SHOWN else ""
    return f"{len(parts)} of {total}: {names}{more}"


def chunk_words(line: Line, pass_index: int) -> str:
    """A pass of a line: its number, phase, request and chunk."""
    dump = line.dump
    record = dump.passes[pass_index]
    if record["flags"] & schema.PASS_CLOSING:
        return "when the recording ended"
    if record["flags"] & schema.PASS_BETWEEN:
        return f"after pass {_pass_before(dump, pass_index)}"
    phase = Phase(int(record["phase"])).word
    members = {part.request for part in line.parts}
    for span in dump.rowset(int(record["rowset"])):
        if int(span["request"]) in members:
            name = dump.requests[int(span["request"])].name
            chunk = span_words(int(span["start"]), int(span["stop"]))
            return f"pass {pass_index} {phase} {chunk} of {name!r}"
    return f"pass {pass_index} {phase}"


def _pass_before(dump: Dump, pass_index: int) -> int:
    earlier = dump.model_passes[dump.model_passes < pass_index]
    return int(earlier[-1]) if len(earlier) else 0


def writer_words(line: Line, steps: Steps, site: Site, position: int) -> str:
    """The pass that wrote the row at a position, or left the state there."""
    row = position - 1 if site.kind.is_state else position
    if row < 0:
        return "nobody: empty"
    made = np.flatnonzero((steps.start <= row) & (row < steps.stop))
    if len(made):
        return chunk_words(line, int(steps.pass_index[made[-1]]))
    return "unobserved" if row < line.unobserved else "no pass"


def fact_words(value: object) -> str:
    """A kernel's launch fact."""
    return value if isinstance(value, str) else repr(value)
