"""Runs one arm of a case after the other, each into a dump of its own."""

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from layerdiff_hooks.hunt.arm import Arm, Chunks, find_arm, offer
from layerdiff_hooks.hunt.books import Books
from layerdiff_hooks.hunt.case import Case
from layerdiff_hooks.hunt.errors import ArmFailed, Unsupported
from layerdiff_hooks.hunt.progress import Progress
from layerdiff_hooks.hunt.user_code import describe


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one arm."""

    name: str
    arm: Arm
    dump: Path | None
    """None if it was not run, or failed."""
    why: str = ""
    """Why there is no dump."""
    error: ArmFailed | None = None


class Runner:
    """Runs arms into a folder; a context manager.

    Args:
        case: What to run.
        folder: Where ``hunt.json`` and a dump for each arm go; it exists.
        fresh: Whether finished dumps that are there are recorded again.
        progress: Who is told.

    Raises:
        UsageError: The folder holds what another case, or no hunt, made.
    """

    def __init__(
        self, case: Case, folder: Path, *, fresh: bool = False, progress: Progress | None = None
    ) -> None:
        self.case = case
        self.folder = folder
        self.progress = progress or Progress(None)
        self._books = Books(folder, case, fresh=fresh)
        self._ready = False
        if self._books.stale:
            self.progress.line(f"nothing in {folder} is reused: {self._books.stale}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ready:
            self._ready = False
            with contextlib.redirect_stdout(sys.stderr):
                self.case.teardown()

    def run(self, name: str, *, layout: dict[str, Chunks] | None = None) -> Run:
        """Runs the arm called *name*, or takes the dump that an earlier hunt made of it.

        Raises:
            UsageError: There is no such arm.
        """
        case = self.case
        arm = find_arm(name, baseline=case.baseline, candidate=case.candidate)
        arm = replace(arm, layout=layout) if layout is not None else arm
        path = self.folder / f"{name}.h5"
        wanted = offer(name)
        self.progress.begin(name)
        if wanted is not None and wanted not in case.can:
            return self._skip(name, arm, f"the case does not offer {wanted}")
        if self._books.has(name, arm):
            self.progress.finish("reused")
            return Run(name, arm, path)
        try:
            self._record(name, arm, path)
        except Unsupported as error:
            path.unlink(missing_ok=True)
            return self._skip(name, arm, str(error) or "the case does not support it")
        except (Exception, SystemExit) as error:
            what = describe(error)
            failed = ArmFailed(name, what, path if path.exists() else None)
            self.progress.finish(f"failed: {what}")
            return Run(name, arm, None, str(failed), failed)
        self._books.finish(name, arm)
        self.progress.finish()
        return Run(name, arm, path)

    def _skip(self, name: str, arm: Arm, why: str) -> Run:
        self.progress.finish(f"skipped: {why}")
        return Run(name, arm, None, why)

    def _record(self, name: str, arm: Arm, path: Path) -> None:
        """Lets the case run; what it prints goes to stderr, where reports do not."""
        case = self.case
        self._books.begin(name)
        with contextlib.redirect_stdout(sys.stderr):
            if not self._ready:
                case.setup()
                self._ready = True
            case.record(arm, path)
