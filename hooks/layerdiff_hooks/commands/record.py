"""``layerdiff record``: run a program unchanged and dump what its model computes."""

import argparse
import os
import runpy
import sys
import traceback
from pathlib import Path

from layerdiff.errors import EXIT_UNUSABLE, CaptureError, UsageError
from layerdiff_hooks.dump_mode import VARIABLE, DumpMode, Settings


class RecordCommand:
    """Records the models that a program runs, each into a file of its own."""

    name = "record"
    help = "run a program and dump what its model computes"
    description = """\
Runs a Python program as it is and writes what its model computes into a dump: of every layer's
input and output, of keys, values and states, per token.

  layerdiff record -o warm.h5 --arm warm -- script.py --prompt hello
  layerdiff record -o warm.h5 --arm warm -- -m package.module ARGS

The exit status is the program's; it is 2 when no model ran."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.usage = "%(prog)s -o OUT.h5 [options] -- (script.py | -m module) [ARGS]"
        parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT.h5")
        parser.add_argument("--arm", default="cold", help="the condition, such as cold or warm")
        parser.add_argument(
            "--select",
            action="append",
            metavar="GLOB",
            help="record only sites that fit; show DUMP --points lists them (repeatable)",
        )
        parser.add_argument("--key", type=Path, metavar="FILE", help="key all digests with FILE")
        parser.add_argument("--tokens", action="store_true", help="store the token ids too")
        parser.add_argument("--force", action="store_true", help="replace OUT.h5")
        parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    def run(self, arguments: argparse.Namespace) -> int:
        """Runs the program and returns its exit status."""
        words = list(arguments.program)
        if words[:1] == ["--"]:
            del words[0]
        if not words or (words[0] == "-m" and len(words) < 2):
            raise UsageError(
                "record needs a program: layerdiff record -o OUT.h5 -- script.py ARGS"
            )
        if os.environ.get(VARIABLE):
            raise UsageError(f"{VARIABLE} is set and records as well; unset it to use record")
        _check_program(words)
        _check(arguments.output, force=arguments.force)
        settings = Settings(
            arguments.output.absolute(),
            arm=arguments.arm,
            select=tuple(arguments.select) if arguments.select else None,
            key=arguments.key.absolute() if arguments.key else None,
            tokens=arguments.tokens,
            overwrite=arguments.force,
        )
        _tell_children(settings)
        mode = DumpMode(settings)
        mode.start()
        status = EXIT_UNUSABLE
        try:
            status = run_program(words)
        finally:
            mode.stop()
            recorded = any(recorder.passes for recorder in mode.recorders)
        if not recorded:
            print("layerdiff: no pass of a model was recorded in this process", file=sys.stderr)
            return status or EXIT_UNUSABLE
        return status


def _check_program(words: list[str]) -> None:
    """Says what is wrong with the words behind ``--`` before anything is made."""
    if words[0] != "-m":
        if not os.path.exists(words[0]):
            raise UsageError(f"record runs Python programs, and there is no file {words[0]}")
    elif len(words) < 2:
        raise UsageError("-m needs the name of a module")


def run_program(words: list[str]) -> int:
    """Runs ``script.py ARGS`` or ``-m module ARGS`` as Python would; its exit status."""
    module = words[0] == "-m"
    sys.argv = words[1:] if module else words
    if module:
        sys.path.insert(0, os.getcwd())
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    try:
        if module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as leaving:
        return _status(leaving.code)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _check(output: Path, *, force: bool) -> None:
    """Says what would fail before the program has run."""
    if output.is_dir():
        raise CaptureError(f"{output}: is a folder; name a file")
    if output.exists() and not force:
        raise CaptureError(f"{output}: exists already; name another file or give --force")
    if not output.absolute().parent.is_dir():
        raise CaptureError(f"{output}: no folder {output.parent}; make it first")


def _tell_children(settings: Settings) -> None:
    """Processes that the program starts record as well, into files of their own."""
    os.environ[VARIABLE] = str(settings.path)
    os.environ["LAYERDIFF_ARM"] = settings.arm
    optional = {
        "LAYERDIFF_SELECT": ",".join(settings.select or ()),
        "LAYERDIFF_KEY": str(settings.key or ""),
        "LAYERDIFF_TOKENS": "1" if settings.tokens else "",
    }
    os.environ.update({name: value for name, value in optional.items() if value})
