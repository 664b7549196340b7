"""What each package loads, asked of a fresh interpreter: the arrows between packages hold."""

import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that are loaded after *statement* ran."""
    script = f"{statement}\nimport sys\nprint(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import layerdiff",
        "import layerdiff.cli, layerdiff.comparison, layerdiff.overview, layerdiff.testing",
        "from layerdiff.cli import main; main(['--help']) if False else None",
    ],
)
def test_the_core_loads_neither_torch_nor_textual(statement: str) -> None:
    """A laptop without them reads dumps."""
    assert not loaded_by(statement) & {"torch", "transformers", "textual", "layerdiff_hooks"}


def test_the_hooks_do_not_load_the_screen() -> None:
    """An engine does not carry a terminal UI."""
    assert not loaded_by("import layerdiff_hooks.record") & {"textual", "layerdiff_tui"}


def test_the_screen_does_not_load_torch() -> None:
    """The terminal UI runs where the dumps are, not where the model is."""
    assert not loaded_by("import layerdiff_tui.app") & {"torch", "transformers"}


def test_a_program_without_the_variable_loads_nothing() -> None:
    """Dump mode costs nothing where it is not asked for."""
    assert not loaded_by("") & {"layerdiff", "layerdiff_hooks", "torch"}
