"""From the words of the command line to something that can be shown."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from layerdiff.commands.diff import split_request
from layerdiff.comparison import compare_dumps, open_arm
from layerdiff.errors import PairingError, UsageError
from layerdiff.fingerprint import same_architecture
from layerdiff.format.reader import Dump, open_dumps
from layerdiff.pairing import pair_requests, prompts
from layerdiff.shifted import find_shifted
from layerdiff_tui.pairs import PairSession
from layerdiff_tui.plain import shown
from layerdiff_tui.session import Session
from layerdiff_tui.singles import DumpSession


@dataclass(frozen=True, slots=True)
class Opened:
    """Dumps that were opened and fit together, but were not compared yet."""

    dumps: tuple[Dump, ...]
    """One, or baseline and candidate."""
    only: tuple[str | None, ...]
    """The request asked for in each, if any."""
    forced: dict[str, str] | None = None

    @property
    def title(self) -> str:
        """The names of the files."""
        return shown(" : ".join(dump.path.name for dump in self.dumps))

    def load(self) -> Session:
        """Does the slow part.

        Raises:
            LayerdiffError: A dump contradicts itself.
        """
        if len(self.dumps) == 1:
            return DumpSession(open_arm(self.dumps[0]), self.only[0])
        baseline, candidate = self.dumps
        only = self.only[0], self.only[1]
        return PairSession(compare_dumps(baseline, candidate, forced=self.forced, only=only))

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
    dumps: list[Dump] = []
    try:
        for path, only in names:
            dumps.append(_open_one(path))
            dumps[-1].require_passes()
            prompts(dumps[-1], only)
        forced = dict(split_pair(pair) for pair in pairs) or None
        opened = Opened(tuple(dumps), tuple(only for _, only in names), forced)
        if candidate is not None:
            _check_pairs(opened)
    except BaseException:
        for dump in dumps:
            dump.close()
        raise
    return opened


def _check_pairs(opened: Opened) -> None:
    """Raises `PairingError` if the dumps have nothing to compare."""
    baseline, candidate = opened.dumps
    same_architecture(baseline, candidate)
    if opened.forced or None in opened.only:
        left, right = prompts(baseline, opened.only[0]), prompts(candidate, opened.only[1])
        try:
            pair_requests(left, right, opened.forced)
        except PairingError:
            # Shifted tokens are sought only here, as that takes an index of both dumps.
            shifted = partial(find_shifted, open_arm(baseline), open_arm(candidate))
            pair_requests(left, right, opened.forced, shifted)


def _open_one(path: Path) -> Dump:
    """The dump at a path, or the only one in a folder of ranks."""
    dumps = open_dumps(path)
    if len(dumps) > 1:
        name = dumps[0].path.name
        for dump in dumps:
            dump.close()
        raise UsageError(f"{path}: holds {len(dumps)} ranks; name the file of one, such as {name}")
    return dumps[0]


def split_pair(pair: str) -> tuple[str, str]:
    """Both requests of ``A=B``."""
    left, separator, right = pair.partition("=")
    if not (left and separator and right):
        raise UsageError(f"--pair {pair}: write BASELINE_REQUEST=CANDIDATE_REQUEST")
    return left, right
