"""What the detail pane says about a cell of one dump."""

from layerdiff.digest_store import DigestStore
from layerdiff.format.records import Site
from layerdiff.lineage import Line, Steps
from layerdiff.vocabulary import Moment
from layerdiff_tui import details
from layerdiff_tui.cells import CellRecord, fetch
from layerdiff_tui.details import Detail, Fact, Heading, Lines, mark_fact
from layerdiff_tui.marks import DUMP_SIGNS, DumpMark
from layerdiff_tui.rows import Row, short_names


def describe_cell(
    line: tuple[Line, Steps],
    store: DigestStore,
    row: Row,
    position: int,
    span: tuple[int, int],
) -> Detail:
    """The site that a row shows at a position, and how its other sites are.

    Args:
        line: The request with what filled its cache, and its passes.
        span: The positions of the cell on the screen, half-open.
    """
    chosen = row.column_at(position)
    mark = DumpMark(int(chosen.marks[position]))
    site, moment = chosen.site, chosen.moment
    state = site.kind.is_state
    lines: Lines = [
        mark_fact(DUMP_SIGNS[mark]),
        Fact("position", details.position_words(site, position)),
    ]
    if span[1] - span[0] > 1:
        lines.append(Fact("cell", f"{details.span_words(*span)}, shown at {position}"))
    cell = fetch(line[0], store, site, (moment,), position)
    lines += _digests(cell)
    lines += [
        Fact("tensor", f"{site.kind.word}, {details.moment_words(moment, state=state)}"),
        Fact("layer", details.layer_words(site)),
    ]
    lines += _inputs(line[0], site)
    if len(row.columns) > 1:
        lines += details.site_lines(row.columns, position, DUMP_SIGNS)
    lines += _pass(line, site, position, cell)
    lines += _kernel(cell)
    if state or site.kind.is_kv:
        lines += _moments(line[0], store, site, position)
    return Detail(site.name, DUMP_SIGNS[mark], tuple(lines))


def _digests(cell: CellRecord | None) -> Lines:
    if cell is None:
        return [Fact("digest", "not observed")]
    lines: Lines = [Fact("digest", details.hex_digest(cell.digests))]
    shape = "×".join(map(str, cell.shape)) or "1"
    lines.append(Fact("values", f"{cell.dtype}, row shape {shape}"))
    if cell.norm is not None:
        lines.append(Fact("norm", f"{cell.norm:.4g}"))
    if cell.nan_count:
        lines.append(Fact("NaN", f"{cell.nan_count:,} in the rows of this pass"))
    if cell.all_zero:
        lines.append(Fact("zero", "every bit of the rows of this pass is zero"))
    if cell.whole:
        lines.append(Fact("rows", "one digest for the whole tensor: its rows are no tokens"))
    return lines


def _inputs(line: Line, site: Site) -> Lines:
    inputs = [line.dump.sites[index] for index in site.inputs]
    return [Fact("inputs", ", ".join(short_names(inputs)))] if inputs else []


def _pass(line: tuple[Line, Steps], site: Site, position: int, cell: CellRecord | None) -> Lines:
    seen = details.chunk_words(line[0], cell.pass_index) if cell else "not observed"
    wrote = details.writer_words(*line, site, position)
    lines: Lines = [Heading("pass"), Fact("seen in", seen)]
    if wrote != seen:
        lines.append(Fact("written by", wrote))
    if cell is not None and cell.times > 1:
        lines.append(Fact("times seen", str(cell.times)))
    return lines


def _kernel(cell: CellRecord | None) -> Lines:
    if cell is None or cell.kernel is None:
        return []
    lines: Lines = [Heading("kernel"), Fact("kernel", cell.kernel.name)]
    facts = cell.kernel.facts.items()
    lines += [Fact(name, details.fact_words(value)) for name, value in facts]
    if cell.kernel.source:
        lines.append(Fact("source", cell.kernel.source))
    return lines


def _moments(line: Line, store: DigestStore, site: Site, position: int) -> Lines:
    state = site.kind.is_state
    lines: Lines = []
    for moment in Moment:
        cell = fetch(line, store, site, (moment,), position)
        if cell is not None:
            words = details.moment_words(moment, state=state)
            lines.append(Fact(words, details.hex_digest(cell.digests)))
    what = "state" if state else "row"
    return [Heading(f"this {what} at each moment"), *lines] if lines else []
