"""The list of origins."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from layerdiff.model import Origin
from layerdiff.render.text import what
from layerdiff_tui.plain import shown, to_ascii
from layerdiff_tui.screens.dialog import Dialog
from layerdiff_tui.session import Target


class OriginsScreen(Dialog[int | None]):
    """Choose an origin; gives its index in the report."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,o", "close", "Close", id="origins.close")
    ]
    DEFAULT_CSS = """
    OriginsScreen {
        align: center middle;
        & > OptionList, & > OptionList:focus {
            width: 96%; max-width: 120; height: auto; max-height: 80%;
            background: $surface; border: round $primary;
        }
    }
    """

    def __init__(
        self, targets: tuple[Target, ...], current: int | None, *, ascii_only: bool = False
    ) -> None:
        super().__init__()
        self._targets = targets
        self._current = current
        self._ascii = ascii_only

    def compose(self) -> ComposeResult:
        """One line an origin."""
        lines = [origin_line(target.origin) for target in self._targets]
        texts = [Text(to_ascii(line) if self._ascii else line) for line in lines]
        options = OptionList(*(Option(text) for text in texts), markup=False)
        options.border_title = "origins, the first cause first"
        options.border_subtitle = "enter goes there, esc closes"
        yield options

    def on_mount(self) -> None:
        """Begins at the origin under the cursor."""
        self.query_one(OptionList).highlighted = self._current or 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Goes there."""
        self.close(event.option_index)


def origin_line(origin: Origin) -> str:
    """One origin in one line."""
    more = f" (+{origin.positions - 1})" if origin.positions > 1 else ""
    drafter = "drafter " if origin.role == "drafter" else ""
    place = origin.site if origin.layer_index is None else f"{drafter}layer {origin.layer_index}"
    words = f"{origin.rank:>2}  {place} · token {origin.position}{more} · {what(origin)}"
    return shown(f"{words} · {origin.cause.value} ({origin.level.value})")
