"""Writes a report to a file that was not there before."""

from collections.abc import Mapping
from pathlib import Path


def free_name(suffix: str = ".txt", folder: Path | None = None) -> str:
    """A file name for a report that no file has yet."""
    folder = folder or Path()
    name, count = f"layerdiff-report{suffix}", 1
    while (folder / name).exists():
        count += 1
        name = f"layerdiff-report-{count}{suffix}"
    return name


def export(formats: Mapping[str, str], name: str) -> Path:
    """Writes the report that the suffix of *name* asks for; returns where it lies.

    Raises:
        ValueError: It cannot be written there; the message says why.
    """
    if not name.strip():
        raise ValueError("write the name of a file")
    path = Path(name.strip()).expanduser()
    if path.suffix not in formats:
        raise ValueError(f"the name must end in {' or '.join(formats)}")
    try:
        with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
            text = formats[path.suffix]
            file.write(text if text.endswith("\n") else text + "\n")
    except FileExistsError:
        raise ValueError(f"{path} is there already; write another name") from None
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"cannot write {path}: {why}") from None
    return path.absolute()
