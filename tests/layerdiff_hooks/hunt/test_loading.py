"""Cases by name, file, TOML and module; and what is said where there is none."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from layerdiff.errors import UsageError
from layerdiff_hooks.hunt import Case, load_case, loading
from layerdiff_hooks.hunt.arm import find_arm
from tests.layerdiff_hooks.hunt.hunts import write_case
from tests.layerdiff_hooks.hunt.toy_engine import ToyCase

HERE = "tests.layerdiff_hooks.hunt"


class NamedCase(ToyCase):
    """Registered by the tests."""

    name = "toy-one"


def broken() -> Case:
    """A factory whose engine is not there."""
    import no_such_engine  # type: ignore[import-not-found]  # noqa: F401

    return ToyCase()


CASES = {"toy-one": NamedCase, "toy-broken": broken}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cases that a package offers, and a package that cannot be loaded."""
    points = [
        EntryPoint("tests", f"{HERE}.test_loading:CASES", loading.GROUP),
        EntryPoint("gone", "no_such_package.cases:CASES", loading.GROUP),
    ]
    monkeypatch.setattr(loading, "entry_points", lambda group: points)


def refused(spec: str | Path) -> str:
    """The one line that says why a case cannot be loaded."""
    with pytest.raises(UsageError) as caught:
        load_case(str(spec))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.usefixtures("registered")
def test_a_registered_name() -> None:
    """Found; near names are offered for others."""
    assert isinstance(load_case("toy-one"), NamedCase)
    assert "near: toy-one" in refused("toy-on")
    assert "there are toy-one, toy-broken" in refused("quite different")


@pytest.mark.usefixtures("registered")
def test_a_package_that_cannot_be_loaded_is_named() -> None:
    """Behind the name that was not found: it may have been there."""
    assert "no module 'no_such_package'" in refused("missing")
    assert "no module 'no_such_engine' (imported at test_loading.py:" in refused("toy-broken")


def test_a_file(tmp_path: Path) -> None:
    """The one case in it; its own name, or that of the file."""
    path = write_case(tmp_path, "case_one", "class Mine(ToyCase):\n    title = 'mine'")
    case = load_case(str(path))
    assert (case.name, case.title) == ("case_one", "mine")
    assert load_case(f"{path}:Mine").name == "case_one"


def test_an_engine_beside_the_file(tmp_path: Path) -> None:
    """It can be imported, as beside a script."""
    (tmp_path / "engine_beside.py").write_text("TITLE = 'beside'\n")
    body = "from engine_beside import TITLE\nclass Mine(ToyCase):\n    title = TITLE"
    assert load_case(str(write_case(tmp_path, "case_two", body))).title == "beside"


def test_a_module() -> None:
    """Class or function."""
    assert isinstance(load_case(f"{HERE}.test_loading:NamedCase"), NamedCase)
    assert "nothing is called 'Named'" in refused(f"{HERE}.test_loading:Named")
    assert "no module 'tests.nowhere'" in refused("tests.nowhere:Case")
    assert "is no case" in refused(f"{HERE}.test_loading:HERE")
    assert "is no module" in refused("no/such/file:Case")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import no_such_engine", "no module 'no_such_engine' (imported at bad_case.py:3)"),
        ("class Mine(ToyCase:\n    pass", "line 3"),
        ("print('noise')\n1 / 0", "ZeroDivisionError: division by zero (bad_case.py:4)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("pass", "defines no case"),
        ("class A(ToyCase): ...\nclass B(ToyCase): ...", "several cases: A, B; name one"),
        ("class A(ToyCase):\n    arms = ('cold', 'wram')", "no arm 'wram'"),
        ("class A(ToyCase):\n    can = {'poisson'}", "is not a set of no-state, poison"),
        ("class A(ToyCase):\n    candidate = 'cold'", "both cold"),
        ("class A(ToyCase):\n    def __init__(self):\n        raise OSError('x')", "OSError: x"),
    ],
)
def test_a_file_that_is_no_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    """One line says what is wrong; nothing is printed on stdout."""
    assert words in refused(write_case(tmp_path, "bad_case", body))
    assert capsys.readouterr().out == ""


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a name that is that of a file."""
    assert "there is no file" in refused(tmp_path / "nowhere.py")
    assert "there is no file" in refused(tmp_path / "nowhere.toml")
    monkeypatch.chdir(tmp_path)
    write_case(tmp_path, "beside", "class Mine(ToyCase): ...")
    assert "named beside.py" in refused("beside")


TOML = """\
[case]
engine = "toml_engine:run"
title = "by a file"
can = ["no-state"]
[case.options]
layers = 2
[case.prompts]
first = [1, 2]
second = "second.txt"
"""


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a TOML file beside a function that keeps what it is given."""
    (tmp_path / "toml_engine.py").write_text(
        "given = []\ndef run(arm, recorder, **options):\n    given.append((arm, options))\nX = 1\n"
    )
    (tmp_path / "second.txt").write_text("3, 4\n5 [6]\n")
    path = tmp_path / "mine.toml"

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


def test_toml(toml: Callable[[str], Path]) -> None:
    """Options and prompts reach the function."""
    import sys
    from typing import Any

    path = toml(TOML)
    case = load_case(str(path))
    assert (case.name, case.title, case.can) == ("mine", "by a file", frozenset({"no-state"}))
    assert set(case.sources) == {path.resolve(), (path.parent / "second.txt").resolve()}
    nobody: Any = None
    case.run(find_arm("warm"), nobody)
    assert sys.modules["toml_engine"].given == [
        (find_arm("warm"), {"layers": 2, "prompts": {"first": [1, 2], "second": [3, 4, 5, 6]}})
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[case\n", "line 1"),
        ("[case]\nname = 'x'\n", "engine = "),
        ("[case]\nengine = 'toml_engine'\n", "package.module:function"),
        ("[case]\nengine = 'toml_engine:X'\n", "is no function"),
        ("[case]\nengine = 'toml_engine:nun'\n", "nothing is called 'nun'"),
        ("[case]\nengine = 'no_such_engine:run'\n", "no module 'no_such_engine'"),
        ("[case]\nengine = 'toml_engine:run'\narm = ['cold']\n", "case.arm is unknown"),
        ("[case]\nengine = 'toml_engine:run'\narms = 'cold'\n", "case.arms has to be a list"),
        ("[case]\nengine = 'toml_engine:run'\narms = [1]\n", "case.arms has to be a list"),
        ("[case]\nengine = 'toml_engine:run'\ncan = ['x']\n", "is not a set"),
        ("[case]\nengine = 'toml_engine:run'\n[prompts]\n", "[prompts] is unknown"),
        (TOML.replace("second.txt", "third.txt"), "third.txt cannot be read"),
        (TOML.replace("[1, 2]", "[1, 'a']"), "case.prompts.first: 'a' is no token id"),
        (TOML.replace("[1, 2]", "[]"), "has to be a list of token ids"),
    ],
)
def test_toml_that_makes_no_sense(toml: Callable[[str], Path], text: str, words: str) -> None:
    """One line, with the file, and the line where it is no TOML."""
    message = refused(toml(text))
    assert words in message
    assert "mine.toml" in message


def test_arms() -> None:
    """Numbers and poisons make arms of their own; unknown ones are refused with the known."""
    assert find_arm("warm-repeat-2").index == 2
    assert find_arm("cold-repeat", baseline="off").caching is False
    assert find_arm("poison-layer-12").poison == "layer-12"
    assert find_arm("poison-slack").name == "poison"
    assert find_arm("reference").reference
    for name in ("poison", "hot", "poison-layer-x", "cold-repeat-0"):
        with pytest.raises(UsageError, match="the arms are cold"):
            find_arm(name)
