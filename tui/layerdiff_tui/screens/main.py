"""The one screen: answer, grid, detail."""

from functools import partial
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Footer

from layerdiff.errors import LayerdiffError
from layerdiff_tui.actions import SCREEN_ACTIONS, bindings
from layerdiff_tui.details import unreadable
from layerdiff_tui.exporting import export, free_name
from layerdiff_tui.messages import DetailReady, SpotChanged
from layerdiff_tui.pair_details import unplaced_detail
from layerdiff_tui.places import parse_place
from layerdiff_tui.screens.ask import AskScreen
from layerdiff_tui.screens.help import HelpScreen
from layerdiff_tui.screens.origins import OriginsScreen
from layerdiff_tui.session import Session, Spot
from layerdiff_tui.widgets.answer import AnswerLine
from layerdiff_tui.widgets.detail import DetailPane
from layerdiff_tui.widgets.grid import LayerGrid


class MainScreen(Screen[None]):
    """Shows a session once it is loaded.

    Args:
        title: The names of the files.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(SCREEN_ACTIONS)]
    DEFAULT_CSS = """
    MainScreen {
        & #body { height: 1fr; layout: vertical; }
        & #detail { height: 38%; min-height: 6; width: 1fr; }
        &.-short #detail { height: 4; min-height: 4; }
        &.-short #answer { max-height: 2; }
        &.-wide #body { layout: horizontal; }
        &.-wide #detail {
            width: 38%; max-width: 76; height: 1fr; border-top: none;
            border-left: solid $primary-muted;
        }
        &.-wide #detail:focus { border-left: solid $primary; }
    }
    """

    def __init__(self, title: str, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-tall")]
        self._files = title
        self._ascii = ascii_only
        self._session: Session | None = None
        self._view = 0
        self._target: int | None = None
        """The origin that was last gone to."""
        self._turn = 0

    def compose(self) -> ComposeResult:
        """Answer on top, keys at the bottom."""
        yield AnswerLine(ascii_only=self._ascii)
        with Container(id="body"):
            yield LayerGrid(ascii_only=self._ascii, id="grid")
            yield DetailPane(ascii_only=self._ascii, id="detail")
        yield Footer()

    def on_mount(self) -> None:
        """Says what is being done until the session is there."""
        self.query_one(AnswerLine).show_answer(f"reading {self._files} ...")
        self.query_one(LayerGrid).focus()
        if not self._ascii:
            self.query_one(LayerGrid).loading = True

    def show_session(self, session: Session) -> None:
        """Shows what was loaded, the cursor at the answer's origin."""
        self._session = session
        grid = self.query_one(LayerGrid)
        grid.loading = False
        grid.focus()
        self.call_after_refresh(self.refresh_bindings)
        self.query_one(AnswerLine).show_answer(session.answer)
        if session.targets:
            self._go_to_origin(0)
        else:
            self._show_view(0)

    def _show_view(self, index: int) -> None:
        if self._session is None or not self._session.titles:
            return
        self._view = index
        self.query_one(LayerGrid).show(self._session.view(index), self._session.signs)
        self._show_facts()

    def _show_facts(self) -> None:
        """Which request and which origin is shown, and the numbers behind the answer."""
        assert self._session is not None
        view, count = self._session.view(self._view), len(self._session.titles)
        number = f" ({self._view + 1} of {count})" if count > 1 else ""
        arms, *numbers = self._session.summary
        facts = [arms, f"{view.title}{number}", view.facts, *numbers]
        if self._target is not None:
            facts.append(f"origin {self._target + 1} of {len(self._session.targets)}")
        self.query_one(AnswerLine).show_facts(" · ".join(facts))

    def _go_to_origin(self, index: int) -> None:
        assert self._session is not None
        self._target = index
        target = self._session.targets[index]
        grid = self.query_one(LayerGrid)
        if target.view != self._view or grid.state is None:
            self._show_view(target.view)
        grid.place(target.key, target.position)
        self._show_facts()
        if target.key is None:
            self._turn += 1
            self.query_one(DetailPane).show(unplaced_detail(target.origin))

    # -- the detail pane -----------------------------------------------------------------------

    def on_spot_changed(self, message: SpotChanged) -> None:
        """Asks what there is to say about the cell."""
        self._turn += 1
        self._gather(self._view, message.spot, self._turn)

    @work(thread=True, group="detail")
    def _gather(self, view: int, spot: Spot, turn: int) -> None:
        if self._session is None or turn != self._turn:
            return
        try:
            detail = self._session.detail(view, spot)
        except LayerdiffError as error:
            # Digests are read when they are asked for, and the file may be gone by then.
            detail = unreadable(error)
        self.post_message(DetailReady(detail, turn))

    def on_detail_ready(self, message: DetailReady) -> None:
        """Shows it unless the cursor has moved on."""
        if message.turn == self._turn:
            self.query_one(DetailPane).show(message.detail)

    # -- actions -------------------------------------------------------------------------------

    def action_origin(self, steps: int) -> None:
        """To the next origin of the report, or the one before; round at the ends."""
        if self._session is None:
            return
        count = len(self._session.targets)
        if not count:
            self.notify("there is no origin to go to", markup=False)
            return
        if self._target is None:
            index = 0 if steps > 0 else count - 1
        else:
            index = (self._target + steps) % count
        self._go_to_origin(index)

    def action_origins(self) -> None:
        """Lists the origins."""
        if self._session is None or not self._session.targets:
            self.notify("there is no origin to list", markup=False)
            return
        screen = OriginsScreen(self._session.targets, self._target, ascii_only=self._ascii)
        self.app.push_screen(screen, self._chosen)

    def _chosen(self, index: int | None) -> None:
        if index is not None:
            self._go_to_origin(index)

    def action_view(self, steps: int) -> None:
        """To the next pair or request, or the one before."""
        if self._session is None:
            return
        count = len(self._session.titles)
        if count < 2:
            self.notify("there is no other request", markup=False)
            return
        self._show_view((self._view + steps) % count)

    def action_go_to(self) -> None:
        """Asks for a position or a layer."""
        if self.query_one(LayerGrid).state is not None:
            self.app.push_screen(AskScreen("go to", self._go, hint="70  L3  L3:70  norm:70"))

    def _go(self, text: str) -> None:
        grid = self.query_one(LayerGrid)
        if grid.state is not None:
            place = parse_place(text, grid.state.view.rows, grid.state.view.size)
            grid.place(place.key, place.position)

    def action_copy(self) -> None:
        """Copies the report."""
        if self._session is not None:
            self.app.copy_to_clipboard(self._session.formats[".txt"])
            self.notify("report sent to the clipboard; where that fails, e writes a file")

    def action_export(self) -> None:
        """Asks for a file and writes the report there."""
        if self._session is not None:
            formats = self._session.formats
            title = f"export the report to ({' or '.join(formats)})"
            accept = partial(self._export, formats)
            self.app.push_screen(AskScreen(title, accept, value=free_name()))

    def _export(self, formats: dict[str, str], name: str) -> None:
        self.notify(f"written to {export(formats, name)}", markup=False)

    def action_toggle_theme(self) -> None:
        """Between light and dark."""
        dark = self.app.current_theme.dark
        self.app.theme = "textual-light" if dark else "textual-dark"

    def action_help(self) -> None:
        """Opens the help."""
        if self._session is not None:
            self.app.push_screen(HelpScreen(self._session.signs, ascii_only=self._ascii))
