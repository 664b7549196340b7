"""What can go wrong, as a tree; each kind carries the exit status that the command line returns.

LayerdiffError
├── UsageError            wrong words on the command line
├── DumpError             a dump that cannot be read
│   ├── NotADump          missing, foreign, truncated or damaged
│   ├── UnsupportedFormat written by a newer layerdiff
│   └── EmptyDump         nothing was recorded
├── PairingError          two dumps that have nothing to compare
├── CaptureError          a recording that cannot be started
└── MissingExtra          an optional part is not installed
"""

from pathlib import Path

EXIT_IDENTICAL = 0
EXIT_DIVERGED = 1
EXIT_UNUSABLE = 2
EXIT_INCONCLUSIVE = 3


class LayerdiffError(Exception):
    """One sentence for the user: what was asked, what was found, what to do."""

    exit_status = EXIT_UNUSABLE


class UsageError(LayerdiffError):
    """Wrong words on the command line."""


class DumpError(LayerdiffError):
    """A dump that cannot be read."""

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = Path(path)
        """The file that was asked for."""
        self.problem = problem
        """What is wrong with it and what to do."""


class NotADump(DumpError):
    """Missing, foreign, truncated or damaged."""


class UnsupportedFormat(DumpError):
    """Written in a format that this layerdiff does not know."""

    def __init__(self, path: Path | str, *, found: int, supported: int) -> None:
        super().__init__(
            path,
            f"dump format {found} is newer than {supported}, the newest this layerdiff reads; "
            "upgrade layerdiff",
        )
        self.found = found
        self.supported = supported


class EmptyDump(DumpError):
    """A dump without one finished pass."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            path, "the dump holds no finished pass; record at least one forward of the model"
        )


class PairingError(LayerdiffError):
    """Two dumps that have nothing to compare."""


class CaptureError(LayerdiffError):
    """A recording that cannot be started."""


class MissingExtra(LayerdiffError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'layerdiff[{extra}]'")
        self.extra = extra
