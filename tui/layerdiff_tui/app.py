"""The application: loads in the background, then shows."""

from collections.abc import Callable, Iterable

from textual import work
from textual.app import App, SystemCommand
from textual.screen import Screen

from layerdiff.errors import LayerdiffError
from layerdiff_tui.actions import GRID_ACTIONS, SCREEN_ACTIONS
from layerdiff_tui.messages import LoadFailed, SessionLoaded
from layerdiff_tui.screens.main import MainScreen
from layerdiff_tui.session import Session
from layerdiff_tui.widgets.grid import LayerGrid

_ASCII_CSS = """
App.-ascii {
    & Toast { border: ascii $primary; }
    & SearchIcon { display: none; }
    & Scrollbar, & ScrollBar { display: none; }
    & VerticalScroll, & OptionList { scrollbar-size: 0 0; }
    & DetailPane { border-top: ascii $primary-muted; }
    & DetailPane:focus { border-top: ascii $primary; }
    & MainScreen.-wide DetailPane, & MainScreen.-wide DetailPane:focus {
        border-top: none; border-left: ascii $primary-muted;
    }
    & HelpScreen > VerticalScroll, & OriginsScreen > OptionList, & AskScreen > Vertical {
        border: ascii $primary;
    }
    & CommandPalette > Vertical { border: ascii $primary; }
    & CommandInput { border: none; }
    & FooterKey.-command-palette { border-left: none; }
    & AnswerLine > #facts { text-overflow: clip; }
}
"""


class LayerdiffApp(App[Exception]):
    """Shows what *load* gives; ends with the error where there is one.

    Args:
        title: The names of the files.
        load: The slow part; called in a thread of its own.
        ascii_only: Whether to draw with ASCII alone.
    """

    TITLE = "layerdiff"
    CSS = _ASCII_CSS

    def __init__(
        self, title: str, load: Callable[[], Session], *, ascii_only: bool = False
    ) -> None:
        super().__init__()
        self._load = load
        self._ascii = ascii_only
        self._main = MainScreen(title, ascii_only=ascii_only)
        self.set_class(ascii_only, "-ascii")
        self.session: Session | None = None
        """What is shown, once it is loaded."""

    def get_default_screen(self) -> MainScreen:
        """The screen under all others."""
        return self._main

    def on_ready(self) -> None:
        """Begins to load once there is something to show it in."""
        self._load_session()

    @work(thread=True)
    def _load_session(self) -> None:
        try:
            session = self._load()
            for index in range(min(len(session.titles), 1)):
                session.view(index)
            self.post_message(SessionLoaded(session))
        except LayerdiffError as error:
            self.post_message(LoadFailed(error))

    def on_session_loaded(self, message: SessionLoaded) -> None:
        """Shows it."""
        self.session = message.session
        self._main.show_session(message.session)

    def on_load_failed(self, message: LoadFailed) -> None:
        """Ends, so that the message can be read."""
        self.exit(message.error)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action, and Textual's own choice of a theme."""
        if screen is self._main:
            grid = self._main.query_one(LayerGrid)
            for action in SCREEN_ACTIONS:
                yield self._command(action.title, action.shown_keys, action.call, self._main)
            for action in GRID_ACTIONS:
                yield self._command(action.title, action.shown_keys, action.call, grid)
        yield SystemCommand("theme", "choose among all themes", self.action_change_theme)

    def _command(
        self, title: str, keys: str, call: str, target: MainScreen | LayerGrid
    ) -> SystemCommand:
        async def run() -> None:
            await self.run_action(call, target)

        return SystemCommand(title, f"key: {keys}", run)
