"""The grid of layers by positions."""

from collections.abc import Callable
from functools import cache, partial
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from layerdiff_tui.actions import GRID_ACTIONS, bindings
from layerdiff_tui.grid_state import GridState
from layerdiff_tui.marks import Sign, Tone
from layerdiff_tui.messages import SpotChanged
from layerdiff_tui.session import View
from layerdiff_tui.widgets.grid_lines import HEADER_LINES, Painter, label_width

_OVERLAYS = {*(tone.value for tone in Tone), "cursor", "cursor-blurred"}


class LayerGrid(Widget, can_focus=True):
    """One row a layer, one column a position or a bin of them; only visible cells are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(GRID_ACTIONS)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"layer-grid--{tone.value}" for tone in Tone),
        *(f"layer-grid--{part}" for part in ("ruler", "row", "row-cursor", "site-label")),
        "layer-grid--chunk-odd",
        *(f"layer-grid--{part}" for part in ("cursor", "cursor-blurred")),
    }
    DEFAULT_CSS = """
    LayerGrid {
        height: 1fr;
        width: 1fr;
        & > .layer-grid--ruler { color: $text-muted; }
        & > .layer-grid--row-cursor { background: $panel; text-style: bold; }
        & > .layer-grid--site-label { color: $text-muted; }
        & > .layer-grid--chunk-odd { background: $surface; }
        & > .layer-grid--cursor {
            background: $foreground; color: $background; text-style: bold;
        }
        & > .layer-grid--cursor-blurred {
            background: $foreground-darken-3; color: $background; text-style: bold;
        }
        & > .layer-grid--origin { text-style: bold; }
        & > .layer-grid--healed { text-style: bold; }
    }
    LayerGrid:dark {
        & > .layer-grid--agrees { color: #4a90d9; }
        & > .layer-grid--carried { color: #7d8a97; }
        & > .layer-grid--unpaired { color: #c9c9c9; }
        & > .layer-grid--healed { color: #7fe0e0; }
        & > .layer-grid--inherited { color: #e6a95c; }
        & > .layer-grid--origin { color: #1a1a1a; background: #ff9d2e; }
    }
    LayerGrid:light {
        & > .layer-grid--agrees { color: #2b6cb0; }
        & > .layer-grid--carried { color: #6b7680; }
        & > .layer-grid--unpaired { color: #3c3c3c; }
        & > .layer-grid--healed { color: #006d77; }
        & > .layer-grid--inherited { color: #a85200; }
        & > .layer-grid--origin { color: #ffffff; background: #c24e00; }
    }
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._ascii = ascii_only
        self._signs: tuple[Sign, ...] = ()
        self._label_width = 0
        self._painter: Painter | None = None
        self.state: GridState | None = None
        """None until there is a view with rows."""

    def show(self, view: View, signs: tuple[Sign, ...]) -> None:
        """Shows another view, the cursor in its first cell."""
        self._signs = signs
        self._label_width = label_width(view.rows, self.size.width)
        self.state = (
            GridState.of(view, self._cells_width, self._rows_height) if view.rows else None
        )
        self._changed()

    def place(self, key: str | None, position: int | None) -> None:
        """Moves the cursor to a row and a position; None leaves one where it is."""
        if self.state is None:
            return
        if key is not None:
            self.state.go_to_row(key)
        if position is not None:
            self.state.go(position)
        self._changed()

    @property
    def _cells_width(self) -> int:
        return max(self.size.width - self._label_width, 1)

    @property
    def _rows_height(self) -> int:
        return max(self.size.height - HEADER_LINES, 1)

    def _changed(self) -> None:
        """Draws anew, and tells what is under the cursor."""
        self.refresh()
        if self.state is not None:
            self.post_message(SpotChanged(self.state.spot))

    # -- drawing -------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines that are asked for, with the styles of this moment."""
        style = cache(self._style)
        self._painter = Painter(self._signs, self._label_width, style, self._ascii, self.has_focus)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width, painter = self.size.width, self._painter
        if self.state is None or painter is None:
            return Strip.blank(width, self._style("row"))
        if y < HEADER_LINES:
            return painter.header(self.state, y, width)
        index = self.state.top + y - HEADER_LINES
        if index >= len(self.state.visible):
            return Strip.blank(width, self._style("row"))
        return painter.row(self.state, index, width)

    def _style(self, part: str) -> Style:
        styles = self.get_component_styles(f"layer-grid--{part}")
        # A sign's style is laid over that of its row; all others stand alone.
        return styles.partial_rich_style if part in _OVERLAYS else styles.rich_style

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """All rows and the two lines above them."""
        return HEADER_LINES + (len(self.state.visible) if self.state else 0)

    # -- what changes it -----------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Keeps the cursor on the screen."""
        if self.state is not None:
            self._label_width = label_width(self.state.view.rows, self.size.width)
            self.state.resize(self._cells_width, self._rows_height)
            self._changed()

    def on_click(self, event: events.Click) -> None:
        """Moves the cursor there; on a label opens the row."""
        if self.state is None:
            return
        index = self.state.top + event.y - HEADER_LINES
        if event.y >= HEADER_LINES and index < len(self.state.visible):
            self.state.move_rows(index - self.state.row)
            if event.x < self._label_width:
                self.state.toggle()
        if event.x >= self._label_width:
            self.state.go(self.state.viewport.position_at(event.x - self._label_width))
        self._changed()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows down."""
        event.stop()
        self.action_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three rows up."""
        event.stop()
        self.action_rows(-3)

    def _do(self, change: Callable[[GridState], object]) -> None:
        if self.state is not None:
            change(self.state)
            self._changed()

    def action_rows(self, steps: int) -> None:
        """Down by *steps* rows, or up."""
        self._do(partial(GridState.move_rows, steps=steps))

    def action_cells(self, steps: int) -> None:
        """Right by *steps* cells, or left."""
        self._do(partial(GridState.move_cells, steps=steps))

    def action_page(self, steps: int) -> None:
        """Down by as many rows as are on the screen, or up."""
        self.action_rows(steps * max(self._rows_height - 1, 1))

    def action_edge(self, which: str) -> None:
        """To the ``first`` or the ``last`` position."""
        self._do(lambda state: state.go(0 if which == "first" else state.view.size - 1))

    def action_chunk(self, steps: int) -> None:
        """To the next beginning of a pass, or to the one before."""
        self._do(GridState.next_chunk if steps > 0 else GridState.previous_chunk)

    def action_open_row(self) -> None:
        """Opens or closes a layer."""
        self._do(GridState.toggle)

    def action_zoom(self, steps: int) -> None:
        """Closer, or farther."""
        self._do(partial(GridState.zoom, steps=steps))

    def action_fit(self) -> None:
        """All positions at once."""
        self._do(GridState.fit)
