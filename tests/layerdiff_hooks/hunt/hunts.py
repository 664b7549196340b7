"""Runs the command in this process, as the command line does."""

import argparse
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from layerdiff.errors import LayerdiffError
from layerdiff.model import Report
from layerdiff_hooks.commands.hunt import HuntCommand
from layerdiff_hooks.hunt import Case
from layerdiff_hooks.hunt.hunting import Hunt
from layerdiff_hooks.hunt.progress import Progress
from layerdiff_hooks.hunt.running import Runner


@dataclass(frozen=True, slots=True)
class Done:
    """What a hunt left."""

    status: int
    out: str
    err: str
    message: str
    """Of the error, if it ended in one."""


def command(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Done:
    """``layerdiff hunt WORDS``."""
    parser = argparse.ArgumentParser()
    hunt = HuntCommand()
    hunt.configure(parser)
    capsys.readouterr()
    message = ""
    try:
        status = hunt.run(parser.parse_args([str(word) for word in words]))
    except LayerdiffError as error:
        status, message = error.exit_status, str(error)
    seen = capsys.readouterr()
    assert "\n" not in message
    return Done(status, seen.out, seen.err, message)


@dataclass(frozen=True, slots=True)
class Hunted:
    """A hunt without a command line."""

    report: Report
    hunt: Hunt
    said: list[str]
    """Lines of progress."""


def hunt(case: Case, folder: Path, *, fresh: bool = False) -> Hunted:
    """Runs all that the case asks for into a folder."""
    stream = io.StringIO()
    with Runner(case, folder, fresh=fresh, progress=Progress(stream)) as runner:
        hunt = Hunt(runner, case.arms)
        report = hunt.report()
    return Hunted(report, hunt, stream.getvalue().splitlines())


def write_case(folder: Path, name: str, body: str) -> Path:
    """A case in a file, around the toy engine."""
    path = folder / f"{name}.py"
    path.write_text(f"from tests.layerdiff_hooks.hunt.toy_engine import ToyCase\n\n{body}\n")
    return path
