"""What can go wrong in a hunt."""

from pathlib import Path

from layerdiff.errors import LayerdiffError


class Unsupported(Exception):
    """Raised by a case for an arm that its engine cannot run; the text says why."""


class ArmFailed(LayerdiffError):
    """A case raised while it ran an arm."""

    def __init__(self, arm: str, what: str, dump: Path | None) -> None:
        kept = f"; what it recorded is in {dump}" if dump is not None else ""
        super().__init__(f"arm {arm} failed: {what}{kept}")
        self.arm = arm
        """Name of the run, such as ``warm-repeat``."""
        self.dump = dump
        """The dump up to there; None if there is none."""
