"""The user's own code: what of it is loaded, whether it changed, and where it broke."""

import hashlib
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import layerdiff

_INSTALLED: Final = ("site-packages", "dist-packages")
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_OURS: Final = tuple(
    str(Path(str(folder)).resolve())
    for folder in (Path(layerdiff.__file__).parent, Path(__file__).parents[1])
)


def is_own(file: str) -> bool:
    """Whether a file belongs neither to Python nor to an installed package."""
    if file.startswith(("<", *_STANDARD)):
        return False
    return not any(part in _INSTALLED for part in Path(file).parts)


def loaded_files(package: str = "") -> set[Path]:
    """Files of all loaded modules that are the user's own, or of *package*, installed or not."""
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        inside = package != "" and name.partition(".")[0] == package
        if isinstance(file, str) and (inside or is_own(file)) and Path(file).is_file():
            found.add(Path(file).resolve())
    return found


def digests(files: Iterable[Path]) -> dict[str, str]:
    """What each file holds, by its path; a file that cannot be read has the digest ``""``."""
    return {str(path): _digest(path) for path in sorted(set(files))}


def unchanged(known: Mapping[str, str]) -> bool:
    """Whether files still hold what they did."""
    return all(_digest(Path(path)) == digest for path, digest in known.items())


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    except OSError:
        return ""


def describe(error: BaseException) -> str:
    """Type, text, and the last line of the user's own code that led there."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = last_line(error)
    return f"{text} ({place})" if place else text


def last_line(error: BaseException) -> str:
    """Such as ``engine.py:12 in forward``; empty if none of the user's code was running."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if is_own(frame.filename) and not str(Path(frame.filename).resolve()).startswith(_OURS)
    ]
    if not own:
        return ""
    frame = own[-1]
    inside = "" if frame.name == "<module>" else f" in {frame.name}"
    return f"{Path(frame.filename).name}:{frame.lineno}{inside}"
