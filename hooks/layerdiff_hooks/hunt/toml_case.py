"""A case without a class: a TOML file that names a function and what to give it."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from layerdiff.errors import UsageError
from layerdiff_hooks.hunt.arm import ORDER, Arm
from layerdiff_hooks.hunt.case import Case

if TYPE_CHECKING:
    from layerdiff_hooks.recorder import Recorder

Tree: TypeAlias = dict[str, Any]

_KEYS: Final[Mapping[str, type]] = {
    "engine": str,
    "name": str,
    "title": str,
    "baseline": str,
    "candidate": str,
    "arms": list,
    "can": list,
    "facts": dict,
    "options": dict,
    "prompts": dict,
}
_WORDS: Final[Mapping[type, str]] = {str: "a text", list: "a list", dict: "a table"}


class TomlCase(Case):
    """Runs a function ``run(arm, recorder, **options)``."""

    def __init__(self, function: Callable[..., object], options: Mapping[str, object]) -> None:
        self._function = function
        self._options = options

    def run(self, arm: Arm, recorder: "Recorder") -> None:
        """Calls the function."""
        self._function(arm, recorder, **self._options)


def read_toml(path: Path, resolve: Callable[[str], object]) -> TomlCase:
    """The case that a file describes.

    Args:
        path: The file.
        resolve: Finds what ``package.module:function`` names.

    Raises:
        UsageError: It is no TOML, or says what makes no sense.
    """
    try:
        with path.open("rb") as file:
            tree = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    said = _checked(path, tree)
    function = resolve(said["engine"])
    if not callable(function):
        raise UsageError(f"{path}: engine {said['engine']} is no function")
    options = dict(said.get("options", {}))
    files: list[Path] = []
    if "prompts" in said:
        options["prompts"] = {
            name: _prompt(path, name, value, files) for name, value in said["prompts"].items()
        }
    case = TomlCase(function, options)
    case.engine, case.name = said["engine"], said.get("name", path.stem)
    case.title, case.facts = said.get("title", ""), said.get("facts", {})
    case.baseline = said.get("baseline", case.baseline)
    case.candidate = said.get("candidate", case.candidate)
    case.arms, case.can = tuple(said.get("arms", ORDER)), frozenset(said.get("can", ()))
    case.sources = (path.resolve(), *files)
    return case


def _checked(path: Path, tree: Tree) -> Tree:
    said = tree.get("case")
    if not isinstance(said, dict) or "engine" not in said:
        raise UsageError(f'{path}: needs a table [case] with engine = "package.module:function"')
    for key in tree.keys() - {"case"}:
        raise UsageError(f"{path}: [{key}] is unknown; all stands under [case]")
    for key, value in said.items():
        if key not in _KEYS:
            raise UsageError(f"{path}: case.{key} is unknown; known are {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise UsageError(f"{path}: case.{key} has to be {_WORDS[_KEYS[key]]}")
    for key in ("arms", "can"):
        if not all(isinstance(name, str) for name in said.get(key, ())):
            raise UsageError(f"{path}: case.{key} has to be a list of names")
    if ":" not in said["engine"]:
        raise UsageError(f'{path}: case.engine: write "package.module:function"')
    return said


def _prompt(path: Path, name: str, value: object, files: list[Path]) -> list[int]:
    """Token ids, given one by one or as a file of them."""
    what = f"{path}: case.prompts.{name}"
    if isinstance(value, str):
        file = (path.parent / value).resolve()
        files.append(file)
        try:
            words = re.split(r"[\s,\[\]]+", file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{what}: {file} cannot be read: {error}") from None
        value = [int(word) if word.isdecimal() else word for word in words if word]
        what = f"{what}: {file}"
    if not isinstance(value, list) or not value:
        raise UsageError(f"{what} has to be a list of token ids, or a file of them")
    return [_token(what, token) for token in value]


def _token(what: str, token: object) -> int:
    if isinstance(token, bool) or not isinstance(token, int):
        raise UsageError(f"{what}: {token!r} is no token id")
    return token
