"""Finds a case by its name, in a file, or in a module."""

import contextlib
import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from layerdiff.errors import LayerdiffError, UsageError
from layerdiff_hooks.hunt.case import Case, check_case
from layerdiff_hooks.hunt.toml_case import read_toml
from layerdiff_hooks.hunt.user_code import describe, last_line

GROUP: Final = "layerdiff.cases"
_FEW: Final = 6
"""Cases that are named one by one where another was asked for."""
Maker: TypeAlias = Callable[[], Case] | Case
"""A class, a function that makes a case, or a case."""


def load_case(spec: str) -> Case:
    """The case that *spec* names.

    Args:
        spec: A registered name, ``file.py``, ``file.py:Class``, ``file.toml`` or
            ``package.module:Case``.

    Raises:
        UsageError: There is none, it cannot be loaded, or what it says of itself makes no sense.
    """
    head, separator, attribute = spec.rpartition(":")
    if spec.endswith(".toml"):
        case = _from_toml(Path(spec))
    elif spec.endswith(".py") or (separator and head.endswith(".py")):
        case = _from_file(Path(head if separator else spec), attribute if separator else "", spec)
    elif separator:
        case = _make(_attribute(_module(head, spec), attribute, spec), spec)
        case.name = case.name or attribute
    else:
        case = _registered(spec)
    return check_case(case, spec)


def registered_cases() -> tuple[dict[str, Maker], list[str]]:
    """What installed packages offer, by name, and what of it could not be loaded."""
    found: dict[str, Maker] = {}
    problems = []
    for point in entry_points(group=GROUP):
        try:
            with _importing(f"the cases of {point.value}"):
                offered: Mapping[str, Maker] = point.load()
        except UsageError as error:
            problems.append(str(error))
            continue
        found = {**offered, **found}
    return found, problems


def _registered(name: str) -> Case:
    cases, problems = registered_cases()
    if name not in cases:
        raise UsageError("; ".join([f"there is no case {name!r}{_hint(name, cases)}", *problems]))
    case = _make(cases[name], name)
    case.name = case.name or name
    return case


def _hint(name: str, cases: Mapping[str, Maker]) -> str:
    for file in (Path(f"{name}.py"), Path(f"{name}.toml"), Path(name)):
        if file.is_file():
            return f"; a case in a file is named {file}" if file.suffix else "; is it a .py file?"
    near = difflib.get_close_matches(name.lower(), cases, n=4, cutoff=0.5)
    if near:
        return f"; near: {', '.join(near)} (layerdiff hunt --list names all)"
    if len(cases) <= _FEW:
        return f"; there are {', '.join(cases)}" if cases else "; no cases are installed"
    return f"; layerdiff hunt --list names all {len(cases)}"


def _from_file(path: Path, attribute: str, spec: str) -> Case:
    _must_be_file(path)
    name = f"layerdiff_case_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path.resolve())
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    _search_first(path.resolve().parent)
    sys.modules[name] = module
    with _importing(f"case {spec}"):
        found.loader.exec_module(module)
    case = _make(_attribute(module, attribute, spec) if attribute else _only(module, spec), spec)
    case.name = case.name or path.stem
    return case


def _from_toml(path: Path) -> Case:
    _must_be_file(path)
    _search_first(path.resolve().parent)

    def resolve(engine: str) -> object:
        head, _, attribute = engine.partition(":")
        return _attribute(_module(head, str(path)), attribute, f"{path}: engine {engine}")

    return read_toml(path, resolve)


def _must_be_file(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")


def _search_first(folder: Path) -> None:
    """Engines beside a case can be imported, as they can beside a script."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module(name: str, spec: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{spec}: {name!r} is no module; write package.module:Name")
    _search_first(Path(os.getcwd()))
    with _importing(f"case {spec}"):
        return importlib.import_module(name)


def _only(module: ModuleType, spec: str) -> type[Case]:
    """The one case that a file defines."""
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Case)
        and value.__module__ == module.__name__
    ]
    if not own:
        raise UsageError(
            f"{spec} defines no case: write a class that inherits layerdiff_hooks.hunt.Case"
        )
    if len(own) > 1:
        names = ", ".join(kind.__name__ for kind in own)
        raise UsageError(
            f"{spec} defines several cases: {names}; name one, such as {spec}:{own[0].__name__}"
        )
    return own[0]


def _attribute(module: ModuleType, name: str, spec: str) -> object:
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise UsageError(f"{spec}: nothing is called {name!r} in {module.__file__}{hint}")
    found: object = getattr(module, name)
    return found


def _make(maker: object, spec: str) -> Case:
    """A case from its class, from a function that makes it, or itself."""
    with _importing(f"case {spec}"):
        made: Any = maker if isinstance(maker, Case) or not callable(maker) else maker()
    if not isinstance(made, Case):
        raise UsageError(f"{spec} is no case: it has to inherit layerdiff_hooks.hunt.Case")
    return made


@contextlib.contextmanager
def _importing(what: str) -> Iterator[None]:
    """Makes one line of whatever code of others raises; what it prints goes to stderr."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except LayerdiffError:
        raise
    except ModuleNotFoundError as error:
        place = last_line(error)
        raise UsageError(
            f"{what} cannot be loaded: there is no module {error.name!r}"
            + (f" (imported at {place})" if place else "")
        ) from None
    except SyntaxError as error:
        raise UsageError(
            f"{what} cannot be loaded: {error.filename} line {error.lineno}: {error.msg}"
        ) from None
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what} cannot be loaded: {describe(error)}") from None
