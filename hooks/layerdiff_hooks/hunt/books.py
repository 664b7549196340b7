"""``hunt.json``: what made the dumps of a folder; only by the same are they reused."""

import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import layerdiff
from layerdiff.errors import DumpError, UsageError
from layerdiff.format.reader import Dump
from layerdiff_hooks.hunt.arm import Arm
from layerdiff_hooks.hunt.case import Case
from layerdiff_hooks.hunt.user_code import digests, loaded_files, unchanged

NAME: Final = "hunt.json"
FORMAT: Final = "layerdiff.hunt/1"


class Books:
    """The finished runs of one folder.

    Args:
        folder: Where the dumps are.
        case: What is run.
        fresh: Whether all that is there is to be replaced.

    Raises:
        UsageError: The folder holds what another case, or no hunt, made.
    """

    def __init__(self, folder: Path, case: Case, *, fresh: bool) -> None:
        self._path = folder / NAME
        self._case = case
        self._files = digests(case.sources)
        known = _read(self._path)
        if not fresh:
            _refuse_foreign(folder, case, known)
        self._runs: dict[str, Any] = {}
        self.stale = "" if fresh or not known else _changed(known, self._files)
        """Why runs of this case that are there are no longer its; empty if they are, or none."""
        if known and not fresh and not self.stale:
            self._runs, self._files = dict(known["runs"]), dict(known["sources"])

    def has(self, name: str, arm: Arm) -> bool:
        """Whether the run is there, finished, and was asked for in the same words."""
        if self._runs.get(name) != arm.words():
            return False
        try:
            with Dump.open(self._path.parent / f"{name}.h5") as dump:
                return dump.closed and dump.arm == arm.name
        except DumpError:
            return False

    def begin(self, name: str) -> None:
        """A run is about to be replaced: it counts as unfinished until `finish`."""
        self._runs.pop(name, None)
        self._write()

    def finish(self, name: str, arm: Arm) -> None:
        """A run came to its end."""
        self._runs[name] = arm.words()
        package = type(self._case).__module__.partition(".")[0]
        self._files = {**digests(_news(self._files, package)), **self._files}
        self._write()

    def _write(self) -> None:
        document = {
            "format": FORMAT,
            "case": self._case.name,
            "made_by": _made_by(),
            "sources": self._files,
            "runs": self._runs,
        }
        try:
            self._path.write_text(json.dumps(document, indent=1), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {self._path}: {error.strerror}") from None


def _news(known: Iterable[str], package: str) -> set[Path]:
    return loaded_files(package) - {Path(path) for path in known}


def _made_by() -> dict[str, object]:
    """What else bits depend on."""
    return {
        "layerdiff": layerdiff.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": f"{platform.node()} {platform.machine()}",
    }


def _changed(known: dict[str, Any], asked: Iterable[str]) -> str:
    """What is another than it was when the folder's dumps were made; empty if all is the same."""
    made_by, sources = known.get("made_by"), known.get("sources")
    if not (isinstance(made_by, dict) and isinstance(sources, dict)):
        return f"{NAME} is damaged"
    if not isinstance(known.get("runs"), dict):
        return f"{NAME} is damaged"
    for name, value in _made_by().items():
        if made_by.get(name) != value:
            return f"{name} was {made_by.get(name)} and is {value}"
    for path in [*sources, *asked]:
        if not unchanged({path: sources.get(path, "")}):
            return f"{path} has changed"
    return ""


def _read(path: Path) -> dict[str, Any]:
    """What the file says; empty if it is missing or no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("format") == FORMAT else {}


def _refuse_foreign(folder: Path, case: Case, known: dict[str, Any]) -> None:
    if known and known.get("case") != case.name:
        raise UsageError(
            f"{folder} holds the dumps of case {known.get('case')!r}; name another folder, "
            "or --fresh to replace them"
        )
    if not known and any(folder.glob("*.h5")):
        raise UsageError(
            f"{folder} holds dumps that no hunt made; name another folder, or --fresh to replace "
            "those of the same name"
        )
