"""The report for a terminal or a bug thread: the answer in the first line, then the facts."""

import math
import textwrap
from collections.abc import Mapping

from layerdiff.model import KernelSide, Masked, Origin, Report, Where
from layerdiff.sketch import FLOOR
from layerdiff.vocabulary import Cause, Level, OriginKind, SizeClass, Verdict

_WIDTH = 110
_LABEL = 13
_SHOWN_ORIGINS = 8
_NO_SIZE = ("tokens", "weights", "accepted")
"""Origins that are no tensor."""
_FACT = 40


def render_text(report: Report) -> str:
    """The whole report, lines of at most 110 columns where words allow it."""
    lines = [answer_line(report)]
    arms = f"baseline {report.baseline.arm}, candidate {report.candidate.arm}"
    lines += _labelled("arms", arms)
    if report.origins:
        lines += _origin_lines(answer_origin(report), report)
    else:
        lines += _quiet_lines(report)
    for masked in report.masked:
        lines += _labelled("masked", _masked_words(masked))
    for control in report.controls:
        arms = f"{control.candidate} against {control.baseline}"
        lines += _labelled("control", f"{arms}: {control.verdict.value}; {control.says}")
    if report.outputs is not None:
        lines += _labelled("outputs", report.outputs.says)
    lines += _coverage_lines(report)
    for warning in report.warnings:
        lines += _labelled("warning", warning)
    return "\n".join(lines) + "\n"


def _masked_words(masked: Masked) -> str:
    role = "drafter " if masked.role == "drafter" else ""
    layer = masked.site if masked.layer_index is None else f"layer {masked.layer_index}"
    return (
        f"{masked.cause.value} at {role}{layer}, token {masked.position}: {masked.fact}; what it "
        f"does by itself is hidden behind origin #{masked.masked_by}"
    )


def answer_origin(report: Report) -> Origin:
    """The origin that the answer line names."""
    return report.origins[0]


def answer_line(report: Report) -> str:
    """Verdict, place and cause in one line."""
    if not report.origins:
        return _quiet_answer(report)
    origin = answer_origin(report)
    size = _size_words(origin)
    words = f"{report.verdict.name}  {place(origin)} · token {origin.position} · {what(origin)}"
    cause = f"{origin.cause.value}, {origin.confidence.value}"
    if origin.cause is Cause.UNKNOWN:
        cause = "cause unknown"
    behind = f" after {report.rounding_before} of rounding" if report.rounding_before else ""
    return f"{words}   {size}{behind}{' · ' if size else ''}{cause}"


def place(origin: Origin) -> str:
    """Where in the model, such as ``layer 3 (full attention)``."""
    if origin.layer_index is None:
        return origin.site
    kind = f" ({origin.layer_kind})" if origin.layer_kind else ""
    role = "drafter " if origin.role == "drafter" else ""
    return f"{role}layer {origin.layer_index}{kind}"


def what(origin: Origin) -> str:
    """The kernel where one made the difference, else the tensor."""
    if origin.layer_index is None:
        return origin.tensor
    side = origin.kernel.candidate
    if origin.origin_kind is OriginKind.KERNEL and side is not None and side.name:
        return f"kernel {side.name}"
    moment = {"in": " as read", "out": " as left", "restored": " as restored"}.get(
        origin.moment or "", ""
    )
    return f"{origin.tensor}{moment}"


def _size_words(origin: Origin) -> str:
    size = origin.severity.size
    if size is SizeClass.UNKNOWN:
        return "size unknown (no sketches)" if origin.tensor not in _NO_SIZE else ""
    relative = origin.severity.relative
    number = ""
    if relative is not None and math.isfinite(relative):
        number = f" ({relative:.1e})" if relative >= FLOOR else f" (under {FLOOR:.0e})"
    return ("a jump" if size is SizeClass.JUMP else "rounding-sized") + number


def _quiet_answer(report: Report) -> str:
    compared = f"{report.coverage.compared:,} cells compared"
    if report.verdict is Verdict.IDENTICAL:
        hits = [hit for hit in report.coverage.hit_tokens.values() if hit]
        served = f", hit of {max(hits)} tokens" if hits else ""
        return f"IDENTICAL  {compared}{served}"
    reasons = [cause.cause.value for cause in report.arm_causes]
    why = ", ".join(reasons) if reasons else "coverage is incomplete"
    return f"INCONCLUSIVE  no difference observed, {compared}, but {why}"


def _quiet_lines(report: Report) -> list[str]:
    lines = []
    for cause in report.arm_causes:
        lines += _labelled(cause.cause.value, cause.because)
    return lines


def _origin_lines(origin: Origin, report: Report) -> list[str]:
    lines = _labelled("where", _where_words(origin))
    lines += _labelled("site", f"{origin.site}{_more(origin)}")
    for evidence in origin.evidence:
        lines += _labelled(
            "evidence", evidence.fact if evidence.holds else f"not so: {evidence.fact}"
        )
    lines += _kernel_lines(origin)
    baseline, candidate = origin.digests
    if baseline or candidate:
        lines += _labelled(
            "digest", f"baseline {_short(baseline)}   candidate {_short(candidate)}"
        )
    if origin.proved:
        lines += _labelled("proved", _proved_words(origin))
    for ruled in origin.ruled_out:
        lines += _labelled("ruled out", f"{ruled.cause.value}: {ruled.because}")
    if origin.tensor not in _NO_SIZE:
        lines += _labelled("reach", _reach_words(origin))
    lines += _other_lines(report)
    for cause in report.arm_causes:
        lines += _labelled("arm", f"{cause.cause.value}: {cause.because}")
    return lines + _labelled("next", origin.next_step)


def _where_words(origin: Origin) -> str:
    candidate = origin.kernel.candidate
    baseline = origin.kernel.baseline
    words = f'request "{origin.request_id}"'
    if candidate is not None and candidate.where is not None:
        words = f"candidate: {_pass_words(candidate.where)}"
    if baseline is not None and baseline.where is not None:
        words += f"; baseline: {_pass_words(baseline.where)}"
    return words


def _pass_words(where: Where) -> str:
    if where.start == where.stop:
        return f'request "{where.request_id}", {where.phase}'
    return (
        f'request "{where.request_id}", pass {where.pass_index} ({where.phase}), '
        f"tokens [{where.start}, {where.stop})"
    )


def _more(origin: Origin) -> str:
    return f", {origin.positions} positions in this pass" if origin.positions > 1 else ""


def _kernel_lines(origin: Origin) -> list[str]:
    """Both kernels with the facts in which they differ, then those that they share."""
    lines = []
    sides = (origin.kernel.baseline, origin.kernel.candidate)
    shared = _shared_facts(*sides)
    for name, side in zip(("baseline", "candidate"), sides, strict=True):
        if side is not None and side.name:
            own = {fact: value for fact, value in side.facts.items() if fact not in shared}
            lines += _labelled("kernel", f"{name}: {side.name}({_fact_words(own)})")
    if shared and lines:
        lines += _labelled("", f"both: {_fact_words(shared)}")
    if origin.kernel.source:
        lines += _labelled("source", origin.kernel.source)
    return lines


def _shared_facts(baseline: KernelSide | None, candidate: KernelSide | None) -> dict[str, object]:
    if baseline is None or candidate is None:
        return {}
    ours, theirs = candidate.facts, baseline.facts
    return {name: ours[name] for name in ours if name in theirs and ours[name] == theirs[name]}


def _fact_words(facts: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name}={textwrap.shorten(str(value), _FACT, placeholder=' ...')}"
        for name, value in facts.items()
    )


_CLAIMS = {
    "location": "location (both arms repeat here)",
    "mechanism": "mechanism (a control decided it)",
    "completeness": "completeness (nothing else is needed to make the arms agree)",
}


def _proved_words(origin: Origin) -> str:
    if origin.cause is Cause.NONDETERMINISM:
        return "location and mechanism (repeats part here with equal inputs)"
    return ", ".join(_CLAIMS.get(claim, claim) for claim in origin.proved)


def _short(digests: str | None) -> str:
    if digests is None:
        return "not observed"
    first, *more = digests.split()
    return f"{first} (+{len(more)} parts)" if more else first


def _reach_words(origin: Origin) -> str:
    reach = origin.reach
    layers = f"layers {_ranges(reach.layers)}" if reach.layers else "no layer"
    logits = "logits differ" if reach.logits else "no logit differs"
    flips = f", {reach.top1_flips} best tokens flip" if reach.top1_flips else ""
    return f"{reach.cells:,} cells at or after it differ, {layers}; {logits}{flips}"


def _ranges(numbers: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def _other_lines(report: Report) -> list[str]:
    lines = []
    if report.rounding_before:
        lines += _labelled(
            "rounding", f"{report.rounding_before} rounding-sized origins stand beside the jump"
        )
    others = report.origins[1:]
    for origin in others[:_SHOWN_ORIGINS]:
        level = "jump" if origin.level is Level.JUMP else "bits"
        words = f"{place(origin)} · token {origin.position} · {origin.site}"
        settled = f", {origin.cause.value}, {origin.confidence.value}"
        cause = "" if origin.cause is Cause.UNKNOWN else settled
        rank = f"#{origin.rank} "
        lines += _labelled("also", f"{rank}{words}, {_size_words(origin) or level}{cause}")
    if len(others) > _SHOWN_ORIGINS:
        lines += _labelled("also", f"{len(others) - _SHOWN_ORIGINS} more origins (--format json)")
    return lines


def _coverage_lines(report: Report) -> list[str]:
    coverage = report.coverage
    words = f"{coverage.compared:,} cells compared, {coverage.differing:,} differ"
    for count, name in (
        (coverage.carried, "carried"),
        (coverage.explained, "seen in one arm and explained"),
        (coverage.missing_in_baseline, "missing in the baseline"),
        (coverage.missing_in_candidate, "missing in the candidate"),
        (coverage.not_comparable, "not comparable"),
    ):
        words += f", {count:,} {name}" if count else ""
    lines = _labelled("coverage", words)
    hits = ", ".join(
        f'"{name}" {"unknown" if hit is None else hit}'
        for name, hit in coverage.hit_tokens.items()
    )
    lines += _labelled("hits", hits or "none")
    for gap in coverage.gaps:
        lines += _labelled("not seen", gap)
    return lines


def _labelled(label: str, words: str) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL - 3}} ",
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
