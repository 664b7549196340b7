"""From the words of the command line to something that can be shown."""

from dataclasses import dataclass
from pathlib import Path

from layerdiff.commands.diff import split_pair, split_request
from layerdiff.comparison import Prepared, open_arm, prepare
from layerdiff.errors import UsageError
from layerdiff.format.reader import Dump, open_dumps
from layerdiff.pairing import prompts
from layerdiff_tui.pairs import PairSession
from layerdiff_tui.plain import shown
from layerdiff_tui.session import Session
from layerdiff_tui.singles import DumpSession


@dataclass(frozen=True, slots=True)
class Opened:
    """Dumps that were opened and fit together, but were not compared yet."""

    dumps: tuple[Dump, ...]
    """One, or baseline and candidate."""
    only: str | None = None
    """The request asked for in a single dump, if any."""
    pair: Prepared | None = None

    @property
    def title(self) -> str:
        """The names of the files."""
        return shown(" : ".join(dump.path.name for dump in self.dumps))

    def load(self) -> Session:
        """Does the slow part.

        Raises:
            LayerdiffError: A dump contradicts itself.
        """
        if self.pair is None:
            return DumpSession(open_arm(self.dumps[0]), self.only)
        return PairSession(self.pair.compare())

    def close(self) -> None:
        """Closes the files."""
        for dump in self.dumps:
            dump.close()


def open_names(baseline: str, candidate: str | None, pairs: list[str]) -> Opened:
    """Opens one dump or two, each named as ``PATH`` or ``PATH::REQUEST``.

    Raises:
        LayerdiffError: One cannot be read or is empty, or nothing can be paired.
    """
    if candidate is None and pairs:
        raise UsageError("--pair needs two dumps")
    names = [split_request(name) for name in (baseline, candidate) if name is not None]
    forced = [split_pair(pair) for pair in pairs] or None
    dumps: list[Dump] = []
    try:
        for path, request in names:
            dumps.append(_open_one(path))
            dumps[-1].require_passes()
            prompts(dumps[-1], request)
        if len(dumps) == 1:
            return Opened(tuple(dumps), names[0][1])
        only = (names[0][1], names[1][1])
        return Opened(tuple(dumps), pair=prepare(*dumps, forced=forced, only=only))
    except BaseException:
        for dump in dumps:
            dump.close()
        raise


def _open_one(path: Path) -> Dump:
    """The dump at a path, or the only one in a folder of ranks."""
    dumps = open_dumps(path)
    if len(dumps) > 1:
        name = dumps[0].path.name
        for dump in dumps:
            dump.close()
        raise UsageError(f"{path}: holds {len(dumps)} ranks; name the file of one, such as {name}")
    return dumps[0]
