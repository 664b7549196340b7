"""The real program in a real terminal. tmux is required: without it these tests fail."""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_PATIENCE = 30
"""Seconds; a busy machine starts slowly."""


class Terminal:
    """A tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("tmux")
        assert program, "tmux is not installed: apt-get install tmux"
        self._tmux = [program, "-u", "-S", str(folder / "tmux"), "-f", "/dev/null"]

    def start(self, command: str, width: int, height: int) -> None:
        """Runs a command in a terminal of that size."""
        size = ["-x", str(width), "-y", str(height)]
        self._run("new-session", "-d", *size, f"{command}; echo status $?; sleep 60")

    def press(self, *keys: str) -> None:
        """Presses keys, as tmux names them."""
        self._run("send-keys", *keys)

    def screen(self) -> str:
        """What is on the screen."""
        return self._run("capture-pane", "-p")

    def wait(self, check: Callable[[str], bool]) -> str:
        """The screen as soon as *check* holds."""
        end = time.monotonic() + _PATIENCE
        while True:
            screen = self.screen()
            if check(screen):
                return screen
            assert time.monotonic() < end, screen
            time.sleep(0.05)

    def close(self) -> None:
        """Ends the server."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *words: str) -> str:
        found = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True)
        return found.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal that is closed again."""
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def command(*words: Path | str) -> str:
    """The real command line."""
    return shlex.join([sys.executable, "-m", "layerdiff", "tui", *map(str, words)])


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40)])
def test_opens_walks_opens_a_layer_and_quits(
    terminal: Terminal, width: int, height: int, cold: Path, fault: Path
) -> None:
    """The answer line stays in view all the time; the status is that of diff."""
    terminal.start(command(cold, fault), width, height)
    first = terminal.wait(lambda screen: "state-corrupted" in screen and "key in" in screen)
    assert first.splitlines()[0].startswith("DIVERGED  layer 1 (full attention) · token 5")

    terminal.press("n")
    terminal.wait(lambda screen: "▾ 2 linear attention" in screen)

    terminal.press("g")
    terminal.wait(lambda screen: "─ go to ─" in screen or "go to ──" in screen)
    terminal.press("L0", "Enter")
    terminal.wait(lambda screen: "go to ──" not in screen)
    terminal.press("Enter")
    opened = terminal.wait(lambda screen: "▾ 0 linear attention" in screen)
    assert "recurrent out" in opened
    assert opened.splitlines()[0].startswith("DIVERGED")
    assert max(len(line) for line in opened.splitlines()) <= width

    terminal.press("q")
    ended = terminal.wait(lambda screen: "status" in screen)
    assert "status 1" in ended
    assert "Traceback" not in ended


def test_a_dumb_terminal_gets_the_text_report(terminal: Terminal, cold: Path, warm: Path) -> None:
    """With a line that says why."""
    terminal.start(f"TERM=dumb {command(cold, warm)}", 120, 30)
    screen = terminal.wait(lambda screen: "status" in screen)
    assert "the terminal is dumb" in screen
    assert "IDENTICAL" in screen
    assert "status 0" in screen


def test_errors_come_before_the_screen(terminal: Terminal, cold: Path, tmp_path: Path) -> None:
    """One line and exit status 2."""
    terminal.start(command(cold, tmp_path / "missing.h5"), 120, 30)
    screen = terminal.wait(lambda screen: "status" in screen)
    assert "no such file" in screen
    assert "status 2" in screen
    assert len(screen.strip().splitlines()) == 2
