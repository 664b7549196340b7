"""Runs the fault battery: random single faults, pairs without a fault, and two faults at once."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from layerdiff.vocabulary import Verdict
from tests.batteries.faults import CacheBit, HiddenRow, Subject, is_expected, random_fault

FAMILIES = (
    "llama", "gemma3", "qwen3_next", "qwen3_5", "mamba", "mamba2", "jamba", "bamba",
    "falcon_h1", "zamba2", "nemotron_h", "granitemoehybrid", "lfm2",
)  # fmt: skip
DTYPES = (torch.float32, torch.bfloat16)


def run(
    folder: Path, seed: int, faults: int, clean: int, families: Sequence[str] = FAMILIES
) -> Iterator[tuple[str, str | None]]:
    """Yields each case in words, and what went wrong with it or None."""
    rng = random.Random(seed)
    subjects: dict[tuple[str, torch.dtype], Subject] = {}

    def subject() -> Subject:
        key = (rng.choice(families), rng.choice(DTYPES))
        if key not in subjects:
            subjects[key] = Subject(key[0], folder, rng.randrange(1 << 20), key[1])
        return subjects[key]

    for _ in range(faults):
        yield _single(subject(), rng)
    for _ in range(clean):
        yield _clean(subject())
    for _ in range(max(1, faults // 10)):
        yield _double(subject(), rng)


def _single(subject: Subject, rng: random.Random) -> tuple[str, str | None]:
    fault = random_fault(subject, rng)
    path = subject.warm(fault)
    report = subject.report(path)
    path.unlink()
    case = f"{subject.family}: {fault}"
    if report.verdict is not Verdict.DIVERGED:
        return case, f"verdict {report.verdict.value}, expected {fault.expected}"
    first = report.origins[0]
    if not is_expected(first, fault.expected):
        found = (first.site, first.moment, first.position, first.tensor)
        return case, f"found {found}, expected {fault.expected}"
    return case, None


def _clean(subject: Subject) -> tuple[str, str | None]:
    path = subject.warm()
    report = subject.report(path)
    path.unlink()
    case = f"{subject.family}: no fault"
    if report.verdict is not Verdict.IDENTICAL:
        return case, f"verdict {report.verdict.value}: {report.coverage} {report.origins[:1]}"
    return case, None


def _double(subject: Subject, rng: random.Random) -> tuple[str, str | None]:
    """One fault deep in the fill pass, and one at layer 0 when the cache is reused."""
    deep = HiddenRow(len(subject.layers()) - 1, rng.randrange(subject.prefix), False, 1.5)
    fault = random_fault(subject, rng)
    while not (isinstance(fault, CacheBit) and fault.layer_index == _first_cached(subject)):
        fault = random_fault(subject, rng)
    path = subject.warm(deep, fault)
    report = subject.report(path)
    path.unlink()
    missing = [
        wanted.expected
        for wanted in (deep, fault)
        if not any(is_expected(origin, wanted.expected) for origin in report.origins)
    ]
    case = f"{subject.family}: {deep} and {fault}"
    return case, f"not reported: {missing}" if missing else None


def _first_cached(subject: Subject) -> int:
    """The first layer that has a cache: Nemotron-H may begin with one that has none."""
    from tests.batteries.faults import _cached, _filled

    kinds = ("kv_key", "recurrent_state", "conv_state")
    for index, layer in enumerate(_filled(subject).layers):
        if any(_cached(layer, kind, 0) is not None for kind in kinds):
            return index
    raise AssertionError(f"{subject.family} caches nothing")
