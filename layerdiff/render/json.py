"""The report as JSON, ``layerdiff.report/1``."""

import json
import math
from dataclasses import asdict
from typing import Any

from layerdiff.model import KernelSide, Origin, Report, Side

FORMAT = "layerdiff.report/1"


def render_json(report: Report) -> str:
    """The report with the fixed keys; what was not recorded is null."""
    return json.dumps(report_document(report), indent=1, allow_nan=False)


def render_error(message: str) -> str:
    """The document that says why nothing could be compared."""
    document = {
        "format": FORMAT,
        "verdict": "inconclusive",
        "error": message,
        "baseline": {"path": "", "arm": ""},
        "candidate": {"path": "", "arm": ""},
        "coverage": {
            "compared": 0,
            "carried": 0,
            "missing_in_baseline": 0,
            "missing_in_candidate": 0,
            "hit_tokens": {},
            "gaps": [],
        },
        "origins": [],
        "controls": [],
        "warnings": [],
    }
    return json.dumps(document, indent=1)


def report_document(report: Report) -> dict[str, Any]:
    """The report as plain dictionaries and lists."""
    coverage = report.coverage
    return {
        "format": FORMAT,
        "verdict": report.verdict.value,
        "error": None,
        "baseline": _side(report.baseline),
        "candidate": _side(report.candidate),
        "coverage": {
            "compared": coverage.compared,
            "differing": coverage.differing,
            "carried": coverage.carried,
            "explained": coverage.explained,
            "not_comparable": coverage.not_comparable,
            "missing_in_baseline": coverage.missing_in_baseline,
            "missing_in_candidate": coverage.missing_in_candidate,
            "hit_tokens": coverage.hit_tokens,
            "gaps": list(coverage.gaps),
        },
        "arm_causes": [
            {"cause": cause.cause.value, "because": cause.because} for cause in report.arm_causes
        ],
        "origins": [_origin(origin) for origin in report.origins],
        "masked": [asdict(masked) for masked in report.masked],
        "outputs": None if report.outputs is None else asdict(report.outputs),
        "controls": [
            {
                "name": control.name,
                "baseline": control.baseline,
                "candidate": control.candidate,
                "verdict": control.verdict.value,
                "says": control.says,
            }
            for control in report.controls
        ],
        "warnings": list(report.warnings),
    }


def _side(side: Side) -> dict[str, Any]:
    return {"path": side.path, "arm": side.arm, "requests": list(side.requests)}


def _origin(origin: Origin) -> dict[str, Any]:
    severity, reach = origin.severity, origin.reach
    return {
        "rank": origin.rank,
        "request_id": origin.request_id,
        "role": origin.role,
        "layer_index": origin.layer_index,
        "layer_kind": origin.layer_kind,
        "site": origin.site,
        "tensor": origin.tensor,
        "moment": origin.moment,
        "position": origin.position,
        "positions": origin.positions,
        "level": origin.level.value,
        "origin_kind": origin.origin_kind.value,
        "cause": origin.cause.value,
        "also": [cause.value for cause in origin.also],
        "confidence": origin.confidence.value,
        "proved": list(origin.proved),
        "kernel": {
            "baseline": _kernel(origin.kernel.baseline),
            "candidate": _kernel(origin.kernel.candidate),
            "source": origin.kernel.source,
        },
        "digests": {"baseline": origin.digests[0], "candidate": origin.digests[1]},
        "evidence": [{"fact": e.fact, "holds": e.holds} for e in origin.evidence],
        "ruled_out": [{"cause": r.cause.value, "because": r.because} for r in origin.ruled_out],
        "severity": {
            "relative": _finite(severity.relative),
            "incoming": _finite(severity.incoming),
            "class": severity.size.value,
        },
        "reach": {
            "cells": reach.cells,
            "layers": list(reach.layers),
            "logits": reach.logits,
            "top1_flips": reach.top1_flips,
        },
        "next_step": origin.next_step,
    }


def _kernel(side: KernelSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    where = side.where
    return {
        "name": side.name,
        "facts": side.facts,
        "pass": None
        if where is None
        else {
            "request_id": where.request_id,
            "pass_index": where.pass_index,
            "phase": where.phase,
            "start": where.start,
            "stop": where.stop,
        },
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity and no NaN: null; the class and the evidence say the rest."""
    return value if value is not None and math.isfinite(value) else None
