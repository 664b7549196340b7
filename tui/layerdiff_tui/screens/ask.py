"""Asks for one line: where to go, or a file's name."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Label

from layerdiff_tui.plain import shown
from layerdiff_tui.screens.dialog import Dialog


class AskScreen(Dialog[None]):
    """Hands the line on; stays open while it is not accepted.

    Args:
        title: What is asked for.
        accept: Takes the line, or raises `ValueError` with what is wrong with it.
        value: What the line says at first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", id="ask.close")]
    DEFAULT_CSS = """
    AskScreen {
        align: center bottom;
        & > Vertical {
            width: 100%; height: auto; background: $surface; border: round $primary; padding: 0 1;
        }
        & Label { color: $text-warning; width: 100%; height: auto; display: none; }
        & Label.-shown { display: block; }
    }
    """

    def __init__(
        self, title: str, accept: Callable[[str], None], *, value: str = "", hint: str = ""
    ) -> None:
        super().__init__()
        self._title = title
        self._accept = accept
        self._value = value
        self._hint = hint

    def compose(self) -> ComposeResult:
        """The line, and under it what is wrong."""
        field = Input(
            value=self._value, placeholder=self._hint, select_on_focus=False, compact=True
        )
        field.cursor_blink = False
        box = Vertical(field, Label("", markup=False))
        box.border_title = Content(self._title)
        yield box

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Tries the line."""
        try:
            self._accept(event.value)
        except ValueError as error:
            label = self.query_one(Label)
            label.update(Content(shown(str(error))))
            label.add_class("-shown")
        else:
            self.close()
