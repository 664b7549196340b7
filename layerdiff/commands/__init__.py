"""Subcommands of ``layerdiff``: one file each."""

import argparse
from typing import Protocol


class Command(Protocol):
    """A subcommand; packages outside the core register theirs as entry points."""

    name: str
    help: str
    """One line for the list of commands."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Does the work and returns the exit status.

        Raises:
            LayerdiffError: Bad input, with a message for the user.
        """
        ...
