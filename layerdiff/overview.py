"""What one dump holds, in words: the text behind ``layerdiff show``."""

from collections import defaultdict
from fnmatch import fnmatchcase

import numpy as np

from layerdiff.format import schema
from layerdiff.format.reader import Dump
from layerdiff.format.records import Site
from layerdiff.vocabulary import Moment, Phase, TensorKind

_PASSES_SHOWN = 12


def points(dump: Dump, glob: str) -> list[str]:
    """One line for each site whose name matches *glob*: name, kind, layer, rows hashed."""
    rows = _rows_by_site(dump)
    chosen = [site for site in dump.sites if fnmatchcase(site.name, glob)]
    width = max((len(site.name) for site in chosen), default=0)
    return [
        f"{site.name:<{width}}  {site.kind.word:<15}  {_layer(site):<28}  "
        f"{rows[site.index]:,} rows"
        for site in chosen
    ]


def overview(dump: Dump, *, every_pass: bool = False) -> str:
    """Arm, model, requests, passes, layers, coverage and gaps."""
    lines = [f"{dump.path}: arm {dump.arm}, {_status(dump)}"]
    lines += _header_lines(dump)
    lines += ["", "requests"] + [f"  {line}" for line in _request_lines(dump)]
    lines += ["", "passes"] + [f"  {line}" for line in _pass_lines(dump, every_pass)]
    lines += ["", "layers"] + [f"  {line}" for line in _layer_lines(dump)]
    lines += ["", "coverage"] + [f"  {line}" for line in _coverage_lines(dump)]
    return "\n".join(lines) + "\n"


def _status(dump: Dump) -> str:
    if dump.faults:
        return f"INCOMPLETE: {dump.faults[0]}"
    return "complete" if dump.closed else "not closed: its engine was killed or is still running"


def _header_lines(dump: Dump) -> list[str]:
    header = dump.header
    model = header.get("model")
    lines = []
    if isinstance(model, dict):
        lines.append("  model     " + ", ".join(f"{k} {v}" for k, v in model.items() if v))
    for name in ("engine", "device", "created"):
        if isinstance(header.get(name), str) and header[name]:
            lines.append(f"  {name:<9} {header[name]}")
    versions = header.get("versions")
    if isinstance(versions, dict):
        lines.append("  versions  " + ", ".join(f"{k} {v}" for k, v in versions.items()))
    return lines


def _request_lines(dump: Dump) -> list[str]:
    lines = []
    for request in dump.requests:
        positions, _, given = dump.chain(request.index)
        hit = "hit unknown" if request.hit is None else f"hit {request.hit}"
        source = (
            f" from {dump.requests[request.source].name!r}" if request.source is not None else ""
        )
        lines.append(
            f"{request.name!r}: {int(given.sum())} given tokens, {len(positions)} positions, "
            f"{hit}{source}"
        )
    return lines or ["none"]


def _pass_lines(dump: Dump, every_pass: bool) -> list[str]:
    passes = dump.model_passes
    shown = passes if every_pass or len(passes) <= _PASSES_SHOWN else passes[: _PASSES_SHOWN // 2]
    lines = [_pass_line(dump, int(index)) for index in shown]
    if len(shown) < len(passes):
        lines.append(f"... {len(passes) - len(shown) - 1} more (--all)")
        lines.append(_pass_line(dump, int(passes[-1])))
    return lines


def _pass_line(dump: Dump, index: int) -> str:
    record = dump.passes[index]
    spans = dump.rowset(int(record["rowset"]))
    chunks = ", ".join(
        f"{dump.requests[int(span['request'])].name!r} [{span['start']}, {span['stop']})"
        for span in spans[:8]
    )
    more = f", and {len(spans) - 8} more" if len(spans) > 8 else ""
    failed = "  the model raised here" if record["flags"] & schema.PASS_FAILED else ""
    return f"{index:>5}  {Phase(int(record['phase'])).word:<8} {chunks or 'no rows'}{more}{failed}"


def _layer_lines(dump: Dump) -> list[str]:
    rows = _rows_by_site(dump)
    by_layer: dict[int | None, list[Site]] = defaultdict(list)
    for site in dump.sites:
        by_layer[site.layer_index].append(site)
    lines = []
    for layer, sites in sorted(by_layer.items(), key=lambda item: (item[0] is not None, item[0])):
        kind = next((site.layer_kind for site in sites if site.layer_kind), "")
        name = "outside layers" if layer is None else f"layer {layer}"
        seen = ", ".join(f"{_short(site)} {rows[site.index]:,}" for site in sites)
        lines.append(f"{name}{f' ({kind})' if kind else ''}: {seen}")
    return lines or ["none"]


def _coverage_lines(dump: Dump) -> list[str]:
    observations = dump.observations
    sketches = "" if dump.has_sketches else ", no sketches"
    lines = [f"{len(observations):,} observations, {dump.digest_count:,} digests{sketches}"]
    for moment in Moment:
        chosen = observations[observations["moment"] == moment]
        carried = int(((chosen["flags"] & schema.FLAG_CARRIED) != 0).sum())
        if len(chosen):
            lines.append(
                f"{moment.word}: {int(chosen['rows'].sum()):,} rows hashed"
                + (f", {carried:,} observations carried" if carried else "")
            )
    nans = int(observations["nan_count"].astype(np.int64).sum())
    if nans:
        lines.append(f"{nans:,} NaN values")
    lines += [f"not observed: {gap}" for gap in dict.fromkeys((*dump.gaps, *dump.faults))]
    return lines


def _rows_by_site(dump: Dump) -> np.ndarray:
    found: np.ndarray = np.bincount(
        dump.observations["site"], weights=dump.observations["rows"], minlength=len(dump.sites)
    ).astype(np.int64)
    return found


def _layer(site: Site) -> str:
    if site.layer_index is None:
        return ""
    return f"layer {site.layer_index}" + (f" ({site.layer_kind})" if site.layer_kind else "")


def _short(site: Site) -> str:
    """The end of a site's name, enough inside its layer."""
    tail = site.name.rsplit(".", 1)[-1]
    return tail if site.kind is not TensorKind.HIDDEN else tail.removesuffix(":out")
