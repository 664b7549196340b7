"""No verdict hangs on a name: neither on one that the dump holds, nor on one that it must not."""

import importlib
import pkgutil
import re
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layerdiff.controls import settle
from layerdiff.model import Report
from layerdiff.vocabulary import Cause, Verdict
from layerdiff_hooks.hunt.hunting import Hunt
from layerdiff_samples import faults
from layerdiff_samples.cases import CASES
from layerdiff_samples.cases.base import SampleCase
from layerdiff_samples.cases.reading import HIT, PLAIN
from layerdiff_samples.cases.turns import Turn, document
from layerdiff_samples.faults import reading
from tests.layerdiff_samples.hunting import Done, finished, hunted
from tests.layerdiff_samples.renaming import Renaming

FAULTS = [
    fault.name
    for found in pkgutil.iter_modules(faults.__path__)
    for fault in getattr(importlib.import_module(f"{faults.__name__}.{found.name}"), "FAULTS", ())
]


REPORTED = [name for name in CASES if re.match(r"r\d-", name)]
OTHERS = [name for name in CASES if name not in REPORTED][::2]


@pytest.mark.parametrize("name", [*REPORTED, *OTHERS])
def test_names_decide_nothing(name: str, tmp_path: Path) -> None:
    """No dump says what is wrong, and other names in it give the same report.

    Neither a case's name nor a fault's is in a byte of any arm's dump; sites, kernels, sources
    and requests are renamed.
    """
    done = finished(CASES[name], tmp_path, controls=False)
    if done.report.verdict is Verdict.DIVERGED:
        done = finished(CASES[name], tmp_path)
    for run in done.hunt.runs.values():
        assert run.dump is not None
        content = run.dump.read_bytes()
        assert not [word for word in (name, *FAULTS) if word.encode() in content]
    renaming = Renaming()
    found = _again(done, renaming, tmp_path)
    assert _words(found) == _words(done.report, renaming)
    assert found.verdict is done.report.verdict


def test_a_shared_prefix_is_nobody_elses(tmp_path: Path) -> None:
    """Streams of one document hold equal states and rows, and none is foreign."""
    text = document(64)
    case = SampleCase(
        "shared",
        "",
        config=PLAIN,
        fills=[Turn(f"stream-{i}", (*text[:HIT], *document(8, seed=i)), 1) for i in (1, 2, 3)],
        asked=[Turn("r1", text)],
    )
    assert hunted(case, tmp_path).verdict is Verdict.IDENTICAL


def test_equal_tokens_are_nobody_elses(tmp_path: Path) -> None:
    """Where one token repeats, rows and convolutions of many positions and requests are equal.

    One of them is then wrong for another reason, and no other request is accused.
    """
    text = (5,) * 70
    case = SampleCase(
        "equal",
        "",
        config=PLAIN,
        fills=[Turn("other", (7,) * 16 + text[:34], 1), Turn("fill", text[: HIT + 2], 1)],
        asked=[Turn("r1", text)],
        faults=[reading.RAW_RESTORE],
    )
    report = hunted(case, tmp_path)
    causes = {origin.cause for origin in report.origins}
    assert causes == {Cause.LAYOUT}
    assert Cause.STATE_FOREIGN not in {cause for origin in report.origins for cause in origin.also}


def _again(done: Done, renaming: Renaming, folder: Path) -> Report:
    """The report on renamed copies of all dumps."""
    runner = copy(done.hunt.runner)
    runner.case = copy(runner.case)
    runner.case.helpers = tuple(map(renaming, runner.case.helpers))
    copies = Hunt(runner, [], further=False)
    for name, run in done.hunt.runs.items():
        assert run.dump is not None
        copies.runs[name] = replace(run, dump=renaming.copy(run.dump, folder / f"{name}.h5"))
    case = done.hunt.runner.case
    main = copies._compare(case.baseline, case.candidate)
    for name in done.hunt.controls:
        copies._add(name)
    return settle(main, list(copies.controls.values()))


def _words(report: Report, renaming: Renaming | None = None) -> dict[str, Any]:
    """What a report says apart from texts."""

    def named(name: str) -> str:
        return name if renaming is None or not name else renaming(name)

    return {
        "origins": [
            (
                *(o.rank, named(o.request_id), o.role, o.layer_index, o.layer_kind),
                *(o.tensor if o.tensor != o.site else "", o.moment, o.position, o.positions),
                *(o.level, o.origin_kind, o.cause, o.also, o.confidence, o.proved, o.reach),
                o.severity,
                [found.cause for found in o.ruled_out],
            )
            for o in report.origins
        ],
        "masked": [(m.cause, m.role, m.layer_index, m.position) for m in report.masked],
        "arms": [found.cause for found in report.arm_causes],
        "controls": [(control.name, control.verdict) for control in report.controls],
        "coverage": replace(report.coverage, hit_tokens={}, gaps=()),
        "gaps": len(report.coverage.gaps),
    }
