"""``layerdiff tui``: one dump or a pair in the terminal."""

import argparse
import os
import sys

from layerdiff.commands.diff import DiffCommand, split_request
from layerdiff.commands.show import ShowCommand
from layerdiff.errors import EXIT_IDENTICAL, EXIT_INCONCLUSIVE, EXIT_UNUSABLE


class TuiCommand:
    """Shows one dump or a pair; without a terminal prints what ``show`` or ``diff`` does."""

    name = "tui"
    help = "look at one dump or a pair in the terminal"
    description = """\
Shows where two dumps stop agreeing as a grid of layers by positions, or what one dump holds.
Without a terminal, or in a dumb one, prints what 'layerdiff diff' or 'layerdiff show' prints.

exit status
  like that of 'layerdiff diff': 0 identical, 1 diverged, 2 nothing could be shown,
  3 inconclusive; of one dump 0"""
    epilog = """\
examples
  layerdiff tui cold.h5 warm.h5
  layerdiff tui warm.h5                             one dump
  layerdiff tui run.h5::first run.h5::second        two requests of one dump
keys: n the next origin, enter opens a layer, g goes to a place, ? help, q quits"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.add_argument("baseline", metavar="BASELINE.h5[::REQUEST]", help="the trusted run")
        parser.add_argument(
            "candidate", metavar="CANDIDATE.h5[::REQUEST]", nargs="?", help="the other run"
        )
        parser.add_argument(
            "--pair",
            metavar="A=B",
            action="append",
            default=[],
            help="compare request A of the baseline with B of the candidate; may be repeated",
        )
        parser.add_argument("--ascii", action="store_true", help="draw with ASCII alone")

    def run(self, arguments: argparse.Namespace) -> int:
        """Shows the screen and returns the verdict's exit status."""
        why = _no_screen()
        if why:
            return _print_instead(arguments, why)
        return _show(arguments)


def _no_screen() -> str | None:
    """Why no screen can be shown, or None."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "there is no terminal"
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return "the terminal is dumb"
    return None


def _print_instead(arguments: argparse.Namespace, why: str) -> int:
    if arguments.candidate is None and not arguments.pair:
        path, request = split_request(arguments.baseline)
        if request is not None:
            from layerdiff_tui.opening import open_names  # show knows nothing of requests

            open_names(arguments.baseline, None, []).close()
        print(f"layerdiff: {why}; this is what 'layerdiff show' prints", file=sys.stderr)
        return ShowCommand().run(argparse.Namespace(dump=path, points=None, all=False))
    if arguments.candidate is None:
        from layerdiff.errors import UsageError

        raise UsageError("--pair needs two dumps")
    print(f"layerdiff: {why}; this is what 'layerdiff diff' prints", file=sys.stderr)
    words = {"format": "text", "output": None, "reference": None}
    return DiffCommand().run(argparse.Namespace(**vars(arguments), **words))


def _show(arguments: argparse.Namespace) -> int:
    from layerdiff_tui.opening import open_names

    opened = open_names(arguments.baseline, arguments.candidate, arguments.pair)
    try:
        from layerdiff_tui.app import LayerdiffApp  # textual loads only when the view opens

        app = LayerdiffApp(opened.title, opened.load, ascii_only=_ascii_only(arguments))
        error = app.run()
        if isinstance(error, Exception):
            raise error
        if app.return_code:
            return EXIT_UNUSABLE
        if app.session is not None:
            return app.session.exit_status
        return EXIT_INCONCLUSIVE if arguments.candidate else EXIT_IDENTICAL
    finally:
        opened.close()


def _ascii_only(arguments: argparse.Namespace) -> bool:
    """Asked for, or all that the terminal's encoding can show."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return bool(arguments.ascii) or not encoding.startswith("utf")
