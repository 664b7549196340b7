"""The command line: finds the subcommand, runs it, turns errors into a line and a status."""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

import layerdiff
from layerdiff.commands import Command
from layerdiff.commands.diff import DiffCommand
from layerdiff.commands.show import ShowCommand
from layerdiff.errors import EXIT_UNUSABLE, LayerdiffError, MissingExtra

GROUP = "layerdiff.commands"
EXTRAS = {"record": "hooks", "hunt": "hooks", "demo": "all", "tui": "tui"}
"""Commands outside the core, and the extra that each needs."""
NEEDS = {"hooks": ("torch",), "tui": ("textual",), "all": ("torch", "transformers", "textual")}
SUMMARIES = {
    "record": "run a program and dump what its model computes",
    "hunt": "run a case's arms and controls, and say where and why they part",
    "demo": "record and compare a tiny model, from nothing, on the CPU",
    "tui": "look at one dump or a pair in the terminal",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command, parser = _parser(words)
        parsed = parser.parse_args(words)
        if command is None:
            parser.print_help()
            return EXIT_UNUSABLE
        status = command.run(parsed)
        sys.stdout.flush()
        return status
    except LayerdiffError as error:
        print(f"layerdiff: {_one_line(str(error))}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNUSABLE
    except OSError as error:
        print(f"layerdiff: {error.strerror or error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except KeyboardInterrupt:
        print("layerdiff: interrupted", file=sys.stderr)
        return 130


def _one_line(message: str) -> str:
    """Names in a message may hold anything: control characters are shown, not sent."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: ascii(found.group())[1:-1], message)


def _parser(words: list[str]) -> tuple[Command | None, argparse.ArgumentParser]:
    """A parser of all commands, of which the one asked for is configured."""
    parser = argparse.ArgumentParser(
        prog="layerdiff",
        description="Finds the first layer, token and tensor where two inference runs part.",
        epilog="layerdiff COMMAND --help says more; begin with: layerdiff demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"layerdiff {layerdiff.__version__}"
    )
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    own: dict[str, Command] = {"diff": DiffCommand(), "show": ShowCommand()}
    asked = next((word for word in words if not word.startswith("-")), None)
    chosen = None
    for name in [*own, *sorted(EXTRAS.keys() | _registered().keys())]:
        command = own.get(name) or (_load(name) if name == asked else None)
        summary = command.help if command else SUMMARIES.get(name, "")
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=getattr(command, "description", summary),
            epilog=getattr(command, "epilog", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command is not None and name == asked:
            command.configure(sub)
            chosen = command
    return chosen, parser


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(name: str) -> Command:
    """The command that another package registered.

    Raises:
        MissingExtra: What it needs is not installed.
    """
    extra = EXTRAS.get(name, "all")
    if any(find_spec(module) is None for module in NEEDS[extra]):
        raise MissingExtra(f"layerdiff {name}", extra)
    try:
        command: Command = _registered()[name].load()()
    except (KeyError, ModuleNotFoundError) as error:
        raise MissingExtra(f"layerdiff {name} ({error})", extra) from None
    return command


if __name__ == "__main__":
    sys.exit(main())
