"""What the keys do and what the signs mean."""

from itertools import zip_longest
from typing import ClassVar

from rich.console import Group
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from layerdiff_tui.actions import GRID_ACTIONS, SCREEN_ACTIONS, Action
from layerdiff_tui.marks import Sign
from layerdiff_tui.screens.dialog import Dialog

_KEYS = 11


class HelpScreen(Dialog[None]):
    """Keys and signs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "close", "Close", id="help.close")
    ]
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > VerticalScroll {
            width: 78; max-width: 96%; height: auto; max-height: 94%;
            background: $surface; padding: 0 1; border: round $primary;
        }
    }
    """

    def __init__(self, signs: tuple[Sign, ...], *, ascii_only: bool = False) -> None:
        super().__init__()
        self._signs = signs
        self._ascii = ascii_only

    def compose(self) -> ComposeResult:
        """One text that scrolls."""
        box = VerticalScroll(Static(self._text(), markup=False))
        box.border_title = "help"
        box.border_subtitle = "esc closes"
        yield box

    def _text(self) -> Group:
        chunk, takeover = ("+", "H") if self._ascii else ("┬", "╥")
        signs = [(sign.sign, f"{sign.word}: {sign.meaning}") for sign in self._signs]
        ruler = [
            (chunk, "a pass of the candidate begins here"),
            (takeover, "a request begins that took over another one's cache"),
        ]
        return Group(
            _heading("signs: a cell that stands for several shows the worst"),
            _table(signs[1:] + ruler),
            _heading("in the grid"),
            _actions(GRID_ACTIONS),
            _heading("everywhere"),
            _actions(SCREEN_ACTIONS, ("tab", "detail pane and back"), ("ctrl+p", "palette")),
        )


def _heading(text: str) -> Text:
    return Text(text, Style(bold=True))


def _actions(actions: tuple[Action, ...], *more: tuple[str, str]) -> Table:
    """Two to a line, read down the left side first."""
    pairs = [*((action.shown_keys, action.title) for action in actions), *more]
    half = -(-len(pairs) // 2)
    table = Table.grid(padding=(0, 1), expand=True)
    for _ in range(2):
        table.add_column(width=_KEYS, justify="right")
        table.add_column(ratio=1)
    for left, right in zip_longest(pairs[:half], pairs[half:], fillvalue=("", "")):
        table.add_row(*_cells(*left), *_cells(*right))
    return table


def _table(rows: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=_KEYS, justify="right")
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*_cells(*row))
    return table


def _cells(keys: str, words: str) -> tuple[Text, Text]:
    return Text(keys, Style(bold=True)), Text(words)
