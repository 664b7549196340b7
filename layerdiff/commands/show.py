"""``layerdiff show``: what a dump holds."""

import argparse
import sys
from pathlib import Path

from layerdiff.errors import UsageError
from layerdiff.format.reader import open_dumps
from layerdiff.overview import overview, points


class ShowCommand:
    """Lists what one dump holds."""

    name = "show"
    help = "list what a dump holds: arm, requests, passes, sites, coverage, gaps"
    description = """\
Lists the arm, the requests with their hits, the passes with their chunk bounds, the sites by
layer, how much was hashed and what was not observed.

exit status
  0  the dump was read
  2  it cannot be read, is empty, or no site matches"""
    epilog = """\
examples
  layerdiff show warm.h5
  layerdiff show warm.h5 --points                      every site
  layerdiff show warm.h5 --points '*.layers.3[.:]*'    the same glob narrows a recording:
  layerdiff record -o warm.h5 --arm warm --select '*.layers.3[.:]*' -- serve.py"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        parser.add_argument(
            "dump", metavar="DUMP.h5", type=Path, help="a dump, or a folder of ranks"
        )
        parser.add_argument(
            "--points",
            metavar="GLOB",
            nargs="?",
            const="*",
            help="list the sites, all or those that match",
        )
        parser.add_argument(
            "--all", action="store_true", help="list every pass, however many there are"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Prints the overview and returns 0."""
        for dump in open_dumps(arguments.dump):
            with dump:
                dump.require_passes()
                if arguments.points is None:
                    sys.stdout.write(overview(dump, every_pass=arguments.all))
                    continue
                found = points(dump, arguments.points)
                if not found:
                    raise UsageError(
                        f"{dump.path}: no site matches {arguments.points!r}; --points lists all"
                    )
                sys.stdout.write("\n".join(found) + "\n")
        return 0
