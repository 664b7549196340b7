"""Hunts random situations and judges the reports by an oracle of raw bytes."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

import torch

from layerdiff.model import Origin, Report
from layerdiff.vocabulary import Confidence, Verdict
from layerdiff_hooks.hunt.arm import ORDER, find_arm
from layerdiff_hooks.hunt.hunting import hunt
from tests.batteries.cases import HARMLESS, PAIRS, TABLE, Row, WatchedCase, causes_of, draw
from tests.batteries.oracle import Cell, first_difference

Kind: TypeAlias = Literal["faulty", "healthy", "double"]
_AS_READ = ("in", "restored")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one situation."""

    kind: Kind
    seed: int
    fault: str
    situation: str
    shown: bool
    """Whether the raw bytes of the arms differ."""
    problem: str | None
    """What is wrong with the report; None if nothing is."""
    confident: bool = False
    """Whether a wrong cause was called proved."""

    def words(self) -> str:
        """Seed, fault, what is wrong, and the situation."""
        return f"{self.kind} seed {self.seed} ({self.fault}): {self.problem}\n    {self.situation}"


def play(kind: Kind, seed: int, row: Row | None = None) -> Outcome:
    """Draws one situation, hunts it, and compares the report with what the bytes say."""
    torch.set_num_threads(1)
    if kind == "double":
        return _play_double(seed)
    rng = Random(f"{kind}-{seed}")
    row = row or _choose(kind, seed, rng)
    case = draw(rng, row)
    with tempfile.TemporaryDirectory(prefix="layerdiff-battery-") as folder:
        report = hunt(case, Path(folder))
    cell, hit = _truth(case, inside=row.inside)
    problem, confident = _judge(report, row, cell, hit)
    return Outcome(kind, seed, str(row), _words(case), cell is not None, problem, confident)


def play_all(kind: Kind, seeds: range, jobs: int, row: Row | None = None) -> Iterator[Outcome]:
    """Plays every seed, *jobs* at once, in the order in which they end."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(play, kind, seed, row) for seed in seeds]
        for done in as_completed(running):
            yield done.result()


def _play_double(seed: int) -> Outcome:
    """Two faults at once: each must be an origin where it is the first difference alone."""
    first, second, look = PAIRS[seed % len(PAIRS)]
    both = Row((first, second), frozenset(), look)
    wanted = [(fault, _alone(seed, Row((fault,), frozenset(), look))) for fault in (first, second)]
    case = draw(Random(f"double-{seed}"), both)
    with tempfile.TemporaryDirectory(prefix="layerdiff-battery-") as folder:
        report = hunt(case, Path(folder))
    missing = [
        f"{fault} in {cell}"
        for fault, cell in wanted
        if cell is not None
        and not any(names(o, cell) and o.cause in causes_of(fault) for o in report.origins)
    ]
    found = "; ".join(describe(origin) for origin in report.origins[:8])
    problem = f"missing {' and '.join(missing)}; found {found}" if missing else None
    shown = all(cell is not None for _, cell in wanted)
    return Outcome("double", seed, str(both), _words(case), shown, problem)


def _alone(seed: int, row: Row) -> Cell | None:
    """The first difference in the same situation with one fault in it."""
    case = draw(Random(f"double-{seed}"), row)
    with tempfile.TemporaryDirectory(prefix="layerdiff-battery-") as folder:
        for arm in (case.baseline, case.candidate):
            case.record(find_arm(arm), Path(folder) / f"{arm}.h5")
    return _truth(case)[0]


def _choose(kind: Kind, seed: int, rng: Random) -> Row:
    """Rows in turn, so that a few seeds meet many faults."""
    if kind == "healthy":
        look = replace(rng.choice(TABLE).look, arms=ORDER)
        return Row(HARMLESS[seed % len(HARMLESS)].faults, frozenset(), look)
    return TABLE[seed % len(TABLE)]


def _truth(case: WatchedCase, *, inside: bool = False) -> tuple[Cell | None, int]:
    """The first cell in which the arms differ, and the hit of the compared request."""
    cold, warm = case.watched[case.baseline], case.watched[case.candidate]
    cell = first_difference(cold, warm, inside=inside)
    if cell is None and "reference" in case.watched:
        cell = first_difference(case.watched["reference"], cold)
    return cell, warm.told["r1"].hit


def _judge(report: Report, row: Row, cell: Cell | None, hit: int) -> tuple[str | None, bool]:
    if cell is None:
        right = Verdict.IDENTICAL if hit else Verdict.INCONCLUSIVE
        if report.verdict is right:
            return None, False
        found = describe(report.origins[0]) if report.origins else str(report.arm_causes)
        return f"the bytes are equal (hit {hit}), and it says {report.verdict}: {found}", bool(
            report.origins and report.origins[0].confidence is Confidence.PROVED
        )
    wanted = "/".join(sorted(row.causes))
    if report.verdict is not Verdict.DIVERGED or not report.origins:
        return f"expected {wanted} in {cell}; it says {report.verdict}", False
    first = report.origins[0]
    problems = []
    if first.cause not in row.causes:
        problems.append("cause")
    if not names(first, cell):
        problems.append("cell")
    if not problems:
        return None, False
    confident = "cause" in problems and first.confidence is Confidence.PROVED
    what = " and ".join(problems)
    return f"wrong {what}: expected {wanted} in {cell}; found {describe(first)}", confident


def names(origin: Origin, cell: Cell) -> bool:
    """Whether an origin is at a cell."""
    found = (origin.layer_index, origin.role, origin.site, origin.tensor, origin.position)
    wanted = (cell.layer_index, cell.role, cell.site, cell.tensor, cell.position)
    return found == wanted and (origin.moment in _AS_READ) == cell.read


def describe(origin: Origin) -> str:
    """One line."""
    where = "-" if origin.layer_index is None else origin.layer_index
    return (
        f"{origin.cause} ({origin.confidence}, {origin.level}) in layer {where} {origin.site} "
        f"{origin.tensor} at {origin.position}, {origin.moment or 'computed'}"
    )


def _words(case: WatchedCase) -> str:
    config = case.config
    sizes = (
        "layers",
        "width",
        "heads",
        "kv_heads",
        "head_dim",
        "block",
        "chunk",
        "split",
        "drafts",
    )
    turns = [f"{turn.name}:{len(turn.tokens)}+{turn.max_new}" for turn in case.turns]
    return " ".join([*(f"{name}={getattr(config, name)}" for name in sizes), *turns])
