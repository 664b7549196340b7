"""Dumps that several tests open and none changes."""

from pathlib import Path

import pytest

from tests.layerdiff_tui import dumps


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the dumps lie."""
    return tmp_path_factory.mktemp("dumps")


@pytest.fixture(scope="session")
def cold(folder: Path) -> Path:
    """The trusted run."""
    return dumps.cold(folder)


@pytest.fixture(scope="session")
def warm(folder: Path) -> Path:
    """The other run, with equal bits."""
    return dumps.warm(folder)


@pytest.fixture(scope="session")
def fault(folder: Path) -> Path:
    """The other run with a changed mixer row (token 13) and a changed cached key (token 5)."""
    return dumps.warm(folder, (dumps.MIXER, dumps.KEY), "fault.h5")


@pytest.fixture(scope="session")
def killed(folder: Path) -> Path:
    """A run that was killed in its third pass."""
    return dumps.killed(folder)


@pytest.fixture(scope="session")
def hostile(folder: Path) -> Path:
    """A run whose names are hostile."""
    return dumps.hostile(folder)
